/* The advisor of policy auto: a thread of low priority that compares policies on the latest
 * requests and advises the controller to change one.
 *
 * It looks at every domain whose models have policy auto. Between two turns it copies what the
 * domain believes of its models; then it copies their latest requests (serve/recent_arrivals.h)
 * without holding anything up. It lets the candidates serve these (control/auto_contest.h), and
 * decides (control/auto_decision.h). Models that share a domain change together. A domain whose
 * policy changed rests for a window.
 *
 * An advice goes to `advise`. The controller carries it out as it loads a model again: the new
 * version takes over, the old one answers its requests under the old policy. So a change loses
 * nothing, works between any two policies, and is recorded. It needs the memory of both for a
 * moment. A change inside the domain would be cheaper, but policies keep batches, slots and devices
 * in states of their own, which another policy cannot take over.
 *
 * The thread lengthens its interval so that it takes at most 2 % of a processor. Loads that it
 * causes count, too (_charge). It never touches a request, a policy that serves, or a catalogue.
 * Implemented in auto_advisor.c; auto_view.h is what it copies. */
#ifndef TT_CONTROL_AUTO_ADVISOR_H
#define TT_CONTROL_AUTO_ADVISOR_H

#include "base/log/log_settings.h"
#include "policy/policy_candidates.h"
#include "serve/serving.h"

/* Change the policy of these models. Malloc'ed. */
struct tt_auto_advice {
    struct tt_policy_candidate from, to;
    char *reason;
    int32_t model_count;
    char **models; /* their names */
    struct tt_auto_advice *next;
};
void tt_auto_advice_free(struct tt_auto_advice *take_advice); /* NULL-safe */

struct tt_auto_advisor_options {
    struct tt_serving *serving; /* outlives the advisor */
    /* On the advisor's thread; must not block. */
    void (*advise)(void *context, struct tt_auto_advice *take_advice);
    void *advise_context;
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

struct tt_auto_advisor;

/* Starts the thread. Errors: NO_MEMORY, IO. */
TT_MUST_CHECK enum tt_err tt_auto_advisor_open(const struct tt_auto_advisor_options *options,
                                               struct tt_auto_advisor **out_advisor,
                                               struct tt_error *why);
/* A model with policy auto came. Any thread. */
void tt_auto_advisor_notify(struct tt_auto_advisor *self);
/* A change took so much processor time. Any thread. */
void tt_auto_advisor_charge(struct tt_auto_advisor *self, int64_t cpu_ns);
/* Ends the thread; a trial under way is given up. NULL-safe. */
void tt_auto_advisor_close(struct tt_auto_advisor *take_self);

#endif
