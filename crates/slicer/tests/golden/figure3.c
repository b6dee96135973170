/* Figure 3 of Yang, Mitra and Chiueh: the offset comes from a configuration file. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "foretell_slice.h"

int main(void)
{
    int data = 0, index = 0;
    int fp = open("mydata.dat", O_RDONLY);
    FORETELL_PREFETCH(fp);
    FILE *config_fp = fopen("config.dat", "r");
    if (config_fp == NULL)
        return 1;
    fseek(config_fp, 10, SEEK_SET);
    if (fscanf(config_fp, "%d", &index) != 1)
        return 1;
    lseek(fp, index * 4, SEEK_SET);
    if (read(fp, &data, 4) == 4)
        data = data + 10;
    close(fp);
    fclose(config_fp);
    printf("%d\n", data);
    return 0;
}
