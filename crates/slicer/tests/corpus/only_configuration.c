/* Nothing can be prefetched but settings: the program is left alone.
 *
 * expect: refused only files of configuration
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    char line[200];
    int found = 0;
    FILE *settings = fopen("/etc/foretell-test.conf", "r");
    while (settings && fgets(line, sizeof line, settings))
        found += strncmp(line, "size", 4) == 0;
    if (settings)
        fclose(settings);
    printf("%d\n", found);
    return 0;
}
