/* Figure 2 of Yang, Mitra and Chiueh: a file read backwards. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "foretell_slice.h"

static void slice_main(int slice_argc, char **slice_argv, char **slice_envp);

int main(void)
{
    foretell_slice_start(slice_main, 0, NULL, NULL);

    int data[100];
    /* open data file */
    int fp = foretell_real_open(1, "mydata.dat", O_RDONLY);
    for (int i = 99; i >= 0; i--) {
        /* I/O */
        lseek(fp, i * 4, SEEK_SET);
        foretell_real_read(fp, &data[99 - i], 4);
        /* computation */
        data[99 - i] = data[99 - i] * i;
    }
    /* close data file */
    foretell_real_close(fp);
    printf("%d\n", data[0]);
    return 0;
}

/* ---- the slice of figure2.c: what its file accesses depend on ---- */

/* main() of figure2.c:6 */
static void slice_main(int slice_argc, char **slice_argv, char **slice_envp)
{
    (void)slice_argc;
    (void)slice_argv;
    (void)slice_envp;
    int fp = foretell_slice_open(1, "mydata.dat", O_RDONLY);
    for (int i = 99; i >= 0; i--) {
        foretell_slice_lseek(fp, i * 4, SEEK_SET);
        foretell_prefetch_read(fp, 4); /* figure2.c:14 */
    }
    foretell_slice_close(fp);
}
