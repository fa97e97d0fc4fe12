/* The problems and remarks about a model on disk: a list of sentences.
 *
 * A check continues after a problem, so that the user sees all problems at once. Therefore checks
 * add findings instead of returning errors. A problem keeps the model from serving; a remark does
 * not. */
#ifndef TT_MODEL_TEXT_FINDINGS_H
#define TT_MODEL_TEXT_FINDINGS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

enum tt_finding_kind { TT_FINDING_PROBLEM, TT_FINDING_REMARK };

struct tt_finding {
    enum tt_finding_kind kind;
    char *sentence;
};

struct tt_findings {
    struct tt_finding *items;
    int32_t count;
    int64_t capacity;
    int32_t problem_count;
    bool failed; /* out of memory: the list is incomplete */
};

void tt_findings_fini(struct tt_findings *self);
void tt_findings_add(struct tt_findings *self, enum tt_finding_kind kind, const char *format, ...)
    TT_PRINTF(3, 4);
/* The sentence of the first problem; "": there is none. */
const char *tt_findings_first_problem(const struct tt_findings *self);

#endif
