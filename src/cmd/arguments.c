#include "cmd/arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

bool tt_arguments_number(const char *text, int64_t low, int64_t high, int64_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        return false;
    *out = value;
    return true;
}

bool tt_arguments_decimal(const char *text, double low, double high, double *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !(value >= low && value <= high))
        return false;
    *out = value;
    return true;
}

bool tt_arguments_workers(const char *text, int32_t *out) {
    int64_t workers;
    if (!tt_arguments_number(text, 1, TT_ARGUMENTS_MAX_WORKERS, &workers))
        return false;
    *out = (int32_t)workers;
    return true;
}

int tt_arguments_refuse(const char *verb, const char *sentence, const char *detail) {
    fprintf(stderr, "tutti %s: %s%s%s; see tutti %s --help\n", verb, sentence, detail ? " " : "",
            detail ? detail : "", verb);
    return 2;
}
