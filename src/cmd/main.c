/* The program: finds the verb and hands over. Each verb is one file, cmd_<verb>.c. */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--version") == 0) {
        printf("tutti %s\n", TUTTI_VERSION);
        return 0;
    }
    fprintf(stderr, "tutti: no verb given; see tutti --help\n");
    return 2;
}
