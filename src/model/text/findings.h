/* What is wrong, or worth a remark, with a model on disk: a list of sentences.
 *
 * Checks go on after a problem, so that a person sees all of them at once; that is why they do not
 * return errors but add findings. A problem keeps the model from serving; a remark does not. */
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
    int32_t count, capacity;
    int32_t problem_count;
    bool failed; /* memory ran out: the list is not complete */
};

void tt_findings_fini(struct tt_findings *self);
void tt_findings_add(struct tt_findings *self, enum tt_finding_kind kind, const char *format, ...)
    TT_PRINTF(3, 4);
/* The first problem's sentence; "" if there is none. */
const char *tt_findings_first_problem(const struct tt_findings *self);

#endif
