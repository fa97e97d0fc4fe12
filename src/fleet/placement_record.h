/* The record of a plan as text, in a coordination service:
 *
 *     EPOCH
 *     VERSION begun|done
 *     MODEL<tab>FROM<tab>TO     one for each model; FROM and TO are names of pools
 *
 * VERSION is that of the placement before the plan. What was begun and not done has no effect: its
 * models lie where they came from. Models that are not served any more are passed over. Those that
 * the record does not name, or that lay in a pool that is gone, stay where they are.
 *
 * Implemented in placement_record.c. */
#ifndef TT_FLEET_PLACEMENT_RECORD_H
#define TT_FLEET_PLACEMENT_RECORD_H

#include "cluster/placement.h"

/* Appends the record of the plan that has begun, or of the placement in force. */
void tt_placement_record_put(const struct tt_placement *placement, uint64_t epoch,
                             struct tt_text *out);
/* Takes over what is recorded. `out_note`: what of it has no effect, as "; pool p is gone, ...",
 * for people; empty: all is in force. Errors: INVALID: it is no record; the placement is as before,
 * and `why` has the line. */
TT_MUST_CHECK enum tt_err tt_placement_record_read(const char *text, struct tt_placement *placement,
                                                   struct tt_text *out_note, struct tt_error *why);

#endif
