/* Two sorted files of numbers are merged: which one is read next depends on what was read.
 *
 * data: left.txt sorted 300
 * data: right.txt sorted 400
 * run:
 * expect: sliced
 */
#include <stdio.h>

static int next(FILE *file, long *value)
{
    return fscanf(file, "%ld", value) == 1;
}

int main(void)
{
    FILE *left = fopen("left.txt", "r"), *right = fopen("right.txt", "r");
    long a, b, last = -1, distinct = 0;
    if (left == NULL || right == NULL)
        return 1;
    int have_a = next(left, &a), have_b = next(right, &b);
    while (have_a || have_b) {
        long value;
        if (have_a && (!have_b || a <= b)) {
            value = a;
            have_a = next(left, &a);
        } else {
            value = b;
            have_b = next(right, &b);
        }
        distinct += value != last;
        last = value;
    }
    fclose(left);
    fclose(right);
    printf("%ld distinct, last %ld\n", distinct, last);
    return 0;
}
