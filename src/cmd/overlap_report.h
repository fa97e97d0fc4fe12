/* E6: what `tutti profile` says of overlapping copies with computation (lab/experiment/overlap.h,
 * equation 1).
 *
 * A batch's inputs and outputs are copied as they would be between the host and a device: on this
 * machine from memory to memory, measured here and now, or over a link whose bandwidth the user
 * states. It is a few lines for people; no policy reads them. */
#ifndef TT_CMD_OVERLAP_REPORT_H
#define TT_CMD_OVERLAP_REPORT_H

#include "core/tensor.h"

#include <stdint.h>
#include <stdio.h>

struct tt_overlap_report {
    const struct tt_signature *signature;
    int32_t length;       /* what variable dimensions are */
    double link_gb_per_s; /* 0: copied here */
};

/* Bytes of the inputs and outputs of `rows` rows; BYTES elements count 16 each. */
int64_t tt_overlap_report_bytes(const struct tt_overlap_report *self, int32_t rows);
/* One line on a batch of `rows` that computes so long. */
void tt_overlap_report_print(const struct tt_overlap_report *self, int32_t rows,
                             int64_t computation_ns, FILE *to);

#endif
