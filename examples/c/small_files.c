/*
 * Many small files: a text search that reads all source files, in the same order, on every query.
 *
 * Strategy: MRU on level 0, to which all files belong that have no priority of their own. It is the files
 * together that are scanned again and again; each by itself is tiny (cs2 and cs3 in OSDI 1994, section 5.1).
 * The list of files tells what the first query will read, so that it can be fetched ahead.
 */
#include "example.h"

int main(int argc, char **argv)
{
    arguments(&argc, &argv, 2, "WORD,WORD... FILE...");
    int files = argc - 2;
    int *fds = calloc((size_t)files, sizeof *fds);
    if (fds == NULL)
        die("calloc");

    if (control) {
        foretell_set_policy(0, FORETELL_MRU);
        foretell_file_list_start((size_t)files);
    }
    for (int i = 0; i < files; i++)
        fds[i] = open_file(argv[i + 2]);
    if (control)
        foretell_file_list_end();

    for (char *word = strtok(argv[1], ","); word != NULL; word = strtok(NULL, ",")) {
        int matches = 0;
        for (int i = 0; i < files; i++) {
            size_t size = (size_t)size_of(fds[i]);
            char *text = malloc(size + 1);
            if (text == NULL)
                die("malloc");
            text[read_at(fds[i], text, size, 0)] = '\0';
            for (char *at = text; (at = strstr(at, word)) != NULL; at++)
                matches++;
            free(text);
        }
        printf("%s: %d\n", word, matches);
    }
    free(fds);
    return 0;
}
