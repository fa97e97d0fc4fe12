/* `policy { name: "auto" }`: the server chooses the policy, and may change it while it serves.
 *
 * auto is a choice, not a policy. It has no kind, and no mechanism ever runs it. A model begins
 * with the policy that policy/default_policy.h chooses. control/auto_advisor.h then compares the
 * policies that can run the model. This module knows the name and the options of auto, and nothing
 * else. */
#ifndef TT_POLICY_AUTO_POLICY_H
#define TT_POLICY_AUTO_POLICY_H

#include "policy/policy_candidates.h"

extern const char tt_auto_name[], tt_auto_summary[];

/* Its options: `specs` for people, the values as read. */
struct tt_auto_options {
    int64_t interval_ns;   /* from one comparison to the next, at least */
    int64_t window_ns;     /* how far back the requests of a comparison go */
    int32_t gain_permille; /* the least gain that justifies a change */
};

/* Where the models of a domain run, under any of their policies. */
struct tt_auto_devices {
    int32_t executors;        /* of a policy without workers */
    int32_t processors;       /* that they share; 0: the devices are emulated */
    int32_t device_executors; /* of one emulated device; 0: each has its own */
};

/* What auto may choose for a model, or for the models of a domain. */
struct tt_auto_choice {
    struct tt_auto_options options;
    struct tt_policy_needs needs;
    struct tt_auto_devices devices;
    int32_t candidate_count;
    /* Of equally good ones the first is chosen. */
    struct tt_policy_candidate candidates[TT_POLICY_MAX_CANDIDATES];
};

/* Sets the candidates that the needs allow: simple ones first. Those that never batch go last,
 * since they have nothing left for more load. */
void tt_auto_choice_list(struct tt_auto_choice *self);
/* Adds another model of the domain: the shortest interval and window, the largest gain, the needs
 * of both. */
void tt_auto_choice_join(struct tt_auto_choice *self, const struct tt_auto_choice *other);

bool tt_policy_is_auto(const char *name);
const struct tt_option_spec *tt_auto_option_specs(int32_t *out_count);
/* Errors: those of tt_options_parse. */
TT_MUST_CHECK enum tt_err tt_auto_options_parse(const struct tt_option *options,
                                                int32_t option_count,
                                                struct tt_auto_options *out_options,
                                                struct tt_error *why);

#endif
