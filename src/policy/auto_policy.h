/* `policy { name: "auto" }`: the server chooses the policy, and may change it while it serves.
 *
 * auto is a choice, not a policy. It has no kind, and no mechanism ever runs it. A model begins
 * with the policy that policy/default_policy.h chooses. control/auto_advisor.h then compares the
 * policies that can run the model. This module knows the name and the options of auto, and nothing
 * else. */
#ifndef TT_POLICY_AUTO_POLICY_H
#define TT_POLICY_AUTO_POLICY_H

#include "policy/policy.h"

extern const char tt_auto_name[], tt_auto_summary[];

/* Its options: `specs` for people, the values as read. */
struct tt_auto_options {
    int64_t interval_ns;   /* from one comparison to the next, at least */
    int64_t window_ns;     /* how far back the requests of a comparison go */
    int32_t gain_permille; /* the least gain that justifies a change */
};

/* What auto may choose for a model. */
enum { TT_AUTO_MAX_CANDIDATES = 32 };
struct tt_auto_choice {
    struct tt_auto_options options;
    int32_t candidate_count;
    /* Policies that can run the model with the options that the server adds to them; of equally
     * good ones the first is chosen. */
    const struct tt_policy_kind *candidates[TT_AUTO_MAX_CANDIDATES];
};

bool tt_policy_is_auto(const char *name);
const struct tt_option_spec *tt_auto_option_specs(int32_t *out_count);
/* Errors: those of tt_options_parse. */
TT_MUST_CHECK enum tt_err tt_auto_options_parse(const struct tt_option *options,
                                                int32_t option_count,
                                                struct tt_auto_options *out_options,
                                                struct tt_error *why);

#endif
