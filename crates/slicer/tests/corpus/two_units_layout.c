/* The second unit of two_units.c. */
#include "two_units.h"

const char *layout_file = "data.bin";

static int counter, last;

static off_t scatter(int number)
{
    return (off_t)((number * 7919l) % 99000);
}

void layout_begin(int places)
{
    counter = 0;
    last = places;
}

int layout_next(struct place *place)
{
    if (counter >= last)
        return 0;
    place->offset = scatter(counter);
    place->length = (size_t)(50 + counter % 250);
    counter++;
    return 1;
}
