/* What `tutti autoscale` answers: sentences, or JSON (docs/FORMATS.md), which a page draws. */
#ifndef TT_LAB_AUTOSCALE_AUTOSCALE_REPORT_H
#define TT_LAB_AUTOSCALE_AUTOSCALE_REPORT_H

#include "base/text.h"
#include "lab/autoscale/autoscale.h"

#include <jansson.h>

enum { TT_AUTOSCALE_SHOWN = 400 }; /* points of each curve; more steps are averaged */

void tt_autoscale_report_put(const struct tt_autoscale_options *options,
                             const struct tt_autoscale_result *result, struct tt_text *out_text);
/* A new reference; NULL: out of memory. */
json_t *tt_autoscale_report_json(const struct tt_autoscale_options *options,
                                 const struct tt_autoscale_result *result);

#endif
