/* Two threads read with one descriptor: the order of their reads is nobody's.
 *
 * data: data.bin bytes 40000
 * flags: -pthread
 * run:
 * expect: refused thread
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static int fd;
static long totals[2];

static void *reader(void *which)
{
    char bytes[100];
    for (int i = 0; i < 50; i++)
        totals[(long)which] += read(fd, bytes, sizeof bytes);
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    fd = open("data.bin", O_RDONLY);
    for (long i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, reader, (void *)i);
    for (long i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    printf("%ld\n", totals[0] + totals[1]);
    return 0;
}
