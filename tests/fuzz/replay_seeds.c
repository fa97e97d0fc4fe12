/* Runs a fuzzer on the files named as arguments, without libFuzzer: so that what fuzzing has taught
 * stays a test of every build, sanitized or not. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        FILE *file = fopen(argv[i], "rb");
        if (!file || fseek(file, 0, SEEK_END) != 0) {
            perror(argv[i]);
            return 1;
        }
        long size = ftell(file);
        rewind(file);
        uint8_t *data = malloc(size > 0 ? (size_t)size : 1); /* exact: a read behind it is seen */
        if (!data || fread(data, 1, (size_t)size, file) != (size_t)size) {
            fprintf(stderr, "%s cannot be read\n", argv[i]);
            return 1;
        }
        fclose(file);
        printf("%s\n", argv[i]);
        fflush(stdout); /* the one that breaks it is the last that is named */
        LLVMFuzzerTestOneInput(data, (size_t)size);
        free(data);
    }
    return argc > 1 ? 0 : 1;
}
