/* The index of the record comes from a configuration file: Figure 3 of the paper.
 *
 * data: data.bin bytes 65536
 * data: config.dat text 0123456789 17 3900 12\n
 * run:
 * expect: sliced
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    int fp, data = 0, index = 0, repeat = 0, step = 0;
    FILE *config_fp;

    fp = open("data.bin", O_RDONLY);
    config_fp = fopen("config.dat", "r");
    if (fp < 0 || config_fp == NULL)
        return 1;
    fseek(config_fp, 10, SEEK_SET);
    if (fscanf(config_fp, "%d %d %d", &index, &step, &repeat) != 3)
        return 2;
    fclose(config_fp);
    while (repeat-- > 0) {
        lseek(fp, index * 4L, SEEK_SET);
        if (read(fp, &data, 4) != 4)
            data = -1;
        data = data + 10;
        printf("%d: %d\n", index, data);
        index += step;
    }
    close(fp);
    return 0;
}
