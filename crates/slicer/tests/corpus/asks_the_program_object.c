/* Linked to asks_the_program.c without its source being shown to the translator. */
#include <stdlib.h>
#include <string.h>

struct library {
    int version;
};

struct library *library_open(const char *name);
int library_version(struct library *library);
void library_close(struct library *library);

struct library *library_open(const char *name)
{
    struct library *library = strcmp(name, "none") == 0 ? NULL : malloc(sizeof *library);
    if (library)
        library->version = (int)strlen(name);
    return library;
}

int library_version(struct library *library)
{
    return library->version;
}

void library_close(struct library *library)
{
    free(library);
}
