/* E6: the estimate of `tutti profile` for overlapping copies with computation
 * (lab/closed_form/overlap.h, equation 1).
 *
 * The time to copy a batch's inputs and outputs is measured from memory to memory on this machine,
 * or computed from the bandwidth of a link that the user gives. The estimate is text for people; no
 * policy reads it. */
#ifndef TT_CMD_OVERLAP_REPORT_H
#define TT_CMD_OVERLAP_REPORT_H

#include "core/tensor.h"

#include <stdint.h>
#include <stdio.h>

struct tt_overlap_report {
    const struct tt_signature *signature;
    int32_t length;       /* size of variable dimensions */
    double link_gb_per_s; /* 0: measure copies in memory */
};

/* Bytes of the inputs and outputs of `rows` rows; BYTES elements count 16 each. */
int64_t tt_overlap_report_bytes(const struct tt_overlap_report *self, int32_t rows);
/* Prints one line on a batch of `rows` that computes for `computation_ns`. */
void tt_overlap_report_print(const struct tt_overlap_report *self, int32_t rows,
                             int64_t computation_ns, FILE *to);

#endif
