/* The text of a tutti.pbtxt with another policy, and with another objective if one is given.
 *
 * Everything else of the text stays as it is written, comments included. */
#ifndef TT_LAB_PLAN_PLAN_SETTINGS_H
#define TT_LAB_PLAN_PLAN_SETTINGS_H

#include "base/text.h"
#include "policy/policy.h"

struct tt_plan_settings {
    const char *policy; /* NULL: none, the server chooses */
    const struct tt_option *options;
    int32_t option_count;
    int64_t slo_ns; /* < 0: as the text says; 0 or TT_NEVER: none */
};

/* Appends the new text. `text` is a valid tutti.pbtxt, or "". Errors: INVALID (it is not text
 * format), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_plan_settings_text(const char *text,
                                                const struct tt_plan_settings *settings,
                                                struct tt_text *out_text, struct tt_error *why);

#endif
