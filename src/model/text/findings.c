#include "model/text/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void tt_findings_fini(struct tt_findings *self) {
    for (int32_t i = 0; i < self->count; i++)
        free(self->items[i].sentence);
    free(self->items);
    *self = (struct tt_findings){0};
}

void tt_findings_add(struct tt_findings *self, enum tt_finding_kind kind, const char *format, ...) {
    if (kind == TT_FINDING_PROBLEM)
        self->problem_count++; /* counted even when out of memory: the model must not serve */
    char *sentence = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&sentence, format, args);
    va_end(args);
    if (length < 0) {
        self->failed = true;
        return;
    }
    if (self->count == self->capacity) {
        int32_t capacity = self->capacity ? self->capacity * 2 : 8;
        struct tt_finding *items = realloc(self->items, (size_t)capacity * sizeof(*items));
        if (!items) {
            free(sentence);
            self->failed = true;
            return;
        }
        self->items = items;
        self->capacity = capacity;
    }
    self->items[self->count++] = (struct tt_finding){kind, sentence};
}

const char *tt_findings_first_problem(const struct tt_findings *self) {
    for (int32_t i = 0; i < self->count; i++)
        if (self->items[i].kind == TT_FINDING_PROBLEM)
            return self->items[i].sentence;
    return self->problem_count > 0 ? "out of memory" : "";
}
