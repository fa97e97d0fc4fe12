/* The policy contract.
 *
 * A policy decides what runs where and when for one domain: models, executors and the devices they
 * share. It is pure: it is told what happened and at which instant (`struct tt_policy_ops`,
 * core/policy_ops.h), keeps its queues, and answers from within `decide` by the mechanism's actions
 * (tt_mechanism_run_begin/add/commit, _drop, _yield, _abort). It reads no clock, draws no random
 * number, does no I/O, uses no float in a decision, allocates nothing after it was made, and has no
 * file-scope state: many instances run in one process, and the simulator and the server carry the
 * same object code.
 *
 * One instant: the carrier tells all completions, then all arrivals and cancellations of the
 * instant, then calls `decide` once; a burst is thus one batch. Inside `decide` a policy first
 * drops what is lost, then RUNs. Comparisons of times are not strict: what ends exactly at its
 * deadline is in time, what may start exactly now may start.
 *
 * Who owns a request: the policy from `arrived` until it RUNs or DROPs it, or hears of its
 * cancellation; the task while it runs; the policy again after `finished` if it is QUEUED there.
 * The policy links it by `request->link` and may keep a number in `request->policy_word`. A request
 * that is LEAVING in `finished` must not be kept.
 *
 * A policy kind is a const table entry: its name, what it is, its options, and how to make one. */
#ifndef TT_POLICY_POLICY_H
#define TT_POLICY_POLICY_H

#include "core/policy_ops.h"

/* ---- options: `policy { name: "window" option { key: "max_delay" value: "5ms" } }` ---- */

enum tt_option_type {
    TT_OPTION_INTEGER,  /* -17 */
    TT_OPTION_DURATION, /* 250us, 5ms, 1s, 1500ns; becomes ns */
    TT_OPTION_PERMILLE, /* 0.75 or 75%; becomes 750 */
    TT_OPTION_CHOICE,   /* one of `choices`; becomes its index */
    TT_OPTION_SIZES,    /* 1,2,4: tt_options_sizes reads them; becomes their number */
    TT_OPTION_GROUPS,   /* 4;2,2;8,8,16: tt_options_group reads one; becomes how many there are */
};

struct tt_option_spec {
    const char *key;
    enum tt_option_type type;
    int64_t minimum, maximum; /* in the unit that it becomes; not for choices */
    int64_t default_value;    /* the value when the option is not given */
    const char *choices;      /* "a|b|c" */
    const char *help;
};

struct tt_option {
    const char *key, *value;
};

enum { TT_MAX_OPTIONS = 24 };

/* Fills values[i] for specs[i] from the given options. INVALID: unknown key, given twice,
 * malformed, out of range; the message names the option, what was found and what would be right. */
TT_MUST_CHECK enum tt_err tt_options_parse(const struct tt_option_spec *specs, int32_t spec_count,
                                           const struct tt_option *options, int32_t option_count,
                                           int64_t *out_values, struct tt_error *why);

/* The numbers of a SIZES option, as they stand there: into out_sizes[limit]; returns how many, 0
 * when the option is not given. The options have passed tt_options_parse. */
int32_t tt_options_sizes(const char *key, const struct tt_option *options, int32_t option_count,
                         int32_t *out_sizes, int32_t limit);

/* The sizes of group number `index` of a GROUPS option, in the same way; 0 when it is not given or
 * has no such group. */
int32_t tt_options_group(const char *key, const struct tt_option *options, int32_t option_count,
                         int32_t index, int32_t *out_sizes, int32_t limit);

/* Do both say the same, in the same order? */
bool tt_options_same(const struct tt_option *a, int32_t a_count, const struct tt_option *b,
                     int32_t b_count);

/* ---- making one ---- */

struct tt_policy_setup {
    const struct tt_mechanism *domain; /* models[] and executors[] to read; borrowed for life */
    int64_t d_ctrl_ns;                 /* S4: a message to an executor takes this, */
    int64_t d_data_ns;                 /* and each row's input this */
    int64_t lateness_ns; /* a decision may come so long after next_at; 0 in virtual time */
    const struct tt_option *options;
    int32_t option_count;
};

struct tt_policy_kind {
    const char *name;
    const char *summary; /* one line for people */
    const struct tt_option_spec *options;
    int32_t option_count;
    /* values[option_count]: the setup's options, or what stands for those that are not given. */
    TT_MUST_CHECK enum tt_err (*create)(const struct tt_policy_setup *setup, const int64_t *values,
                                        struct tt_policy **out_policy, struct tt_error *why);
    const struct tt_policy_ops *ops;
};

/* Tasks that an executor takes at once where nobody says: those that work by cells submit several
 * at a visit. */
static inline int32_t tt_policy_default_depth(const struct tt_policy_kind *kind) {
    return kind->ops->released ? 16 : 1;
}

/* By name; NULL when there is none. */
const struct tt_policy_kind *tt_policy_find(const char *name);
int32_t tt_policy_count(void);
const struct tt_policy_kind *tt_policy_at(int32_t index);
/* Finds the kind, makes the policy and attaches it to the mechanism that the setup reads. NOT_FOUND
 * lists the names. */
TT_MUST_CHECK enum tt_err tt_policy_create(struct tt_mechanism *mechanism, const char *name,
                                           const struct tt_policy_setup *setup,
                                           struct tt_error *why);
/* Frees what tt_policy_create attached. */
void tt_policy_destroy(struct tt_mechanism *mechanism);

#endif
