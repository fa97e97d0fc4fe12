#include "model/text/findings.h"

#include "base/array.h"

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
    if (length < 0 || !TT_ARRAY_RESERVE(self->items, &self->capacity, self->count + 1)) {
        if (length >= 0)
            free(sentence);
        self->failed = true;
        return;
    }
    self->items[self->count++] = (struct tt_finding){kind, sentence};
}

const char *tt_findings_first_problem(const struct tt_findings *self) {
    for (int32_t i = 0; i < self->count; i++)
        if (self->items[i].kind == TT_FINDING_PROBLEM)
            return self->items[i].sentence;
    return self->problem_count > 0 ? "out of memory" : "";
}
