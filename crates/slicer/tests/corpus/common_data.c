/* The data of common.c. */
const char *name;
long step;
long limits[4] = {8192, 200000, 0, 0};
