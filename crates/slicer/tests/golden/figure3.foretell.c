/* Figure 3 of Yang, Mitra and Chiueh: the offset comes from a configuration file. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "foretell_slice.h"

static void slice_main(int slice_argc, char **slice_argv, char **slice_envp);

int main(void)
{
    foretell_slice_start(slice_main, 0, NULL, NULL);

    int data = 0, index = 0;
    int fp = foretell_real_open(1, "mydata.dat", O_RDONLY);
    FORETELL_PREFETCH(fp);
    FILE *config_fp = fopen("config.dat", "r");
    if (config_fp == NULL)
        return 1;
    fseek(config_fp, 10, SEEK_SET);
    if (fscanf(config_fp, "%d", &index) != 1)
        return 1;
    lseek(fp, index * 4, SEEK_SET);
    if (foretell_real_read(fp, &data, 4) == 4)
        data = data + 10;
    foretell_real_close(fp);
    fclose(config_fp);
    printf("%d\n", data);
    return 0;
}

/* ---- the slice of figure3.c: what its file accesses depend on ---- */

/* main() of figure3.c:8 */
static void slice_main(int slice_argc, char **slice_argv, char **slice_envp)
{
    (void)slice_argc;
    (void)slice_argv;
    (void)slice_envp;
    int index = 0;
    int fp = foretell_slice_open(1, "mydata.dat", O_RDONLY);
    FILE *config_fp = foretell_slice_fopen(FORETELL_UNTRACKED, "config.dat", "r");
    if (config_fp == NULL) {
        return;
    }
    foretell_slice_fseek(config_fp, 10, SEEK_SET);
    if (foretell_fetch_fscanf(config_fp, "%d", &index) != 1) {
        return;
    }
    foretell_slice_lseek(fp, index * 4, SEEK_SET);
    foretell_prefetch_read(fp, 4);
    foretell_slice_close(fp);
    foretell_slice_fclose(config_fp);
}
