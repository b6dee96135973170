/* Figure 2 of Yang, Mitra and Chiueh: a file read backwards. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    int data[100];
    /* open data file */
    int fp = open("mydata.dat", O_RDONLY);
    for (int i = 99; i >= 0; i--) {
        /* I/O */
        lseek(fp, i * 4, SEEK_SET);
        read(fp, &data[99 - i], 4);
        /* computation */
        data[99 - i] = data[99 - i] * i;
    }
    /* close data file */
    close(fp);
    printf("%d\n", data[0]);
    return 0;
}
