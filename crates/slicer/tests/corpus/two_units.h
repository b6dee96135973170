/* Between the two units of two_units.c. */
#include <stddef.h>
#include <sys/types.h>

struct place {
    off_t offset;
    size_t length;
};

extern const char *layout_file;

void layout_begin(int places);
int layout_next(struct place *place);
