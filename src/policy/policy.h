/* The policy contract.
 *
 * A policy decides what runs where and when in one domain: models, executors and the devices they
 * share. It is pure. It learns what happened and at which instant (`struct tt_policy_ops`,
 * core/policy_ops.h), keeps its queues, and answers inside `decide` by the mechanism's actions
 * (tt_mechanism_run_begin/add/commit, _drop, _yield, _abort). It reads no clock, draws no random
 * number, does no I/O, uses no float in a decision, allocates nothing after `create`, and has no
 * file-scope state. Many instances run in one process; the simulator and the server carry the same
 * object code.
 *
 * One instant: the carrier reports all completions of the instant, then all arrivals and
 * cancellations, then calls `decide` once; a burst is thus one batch. Inside `decide` a policy
 * first drops what is lost, then RUNs. Comparisons of times are not strict: what ends exactly at
 * its deadline is in time, what may start exactly now may start.
 *
 * Who owns a request: the policy from `arrived` until it RUNs or DROPs the request, or is told of
 * its cancellation; the task while it runs; the policy again after `finished` if it is QUEUED
 * there. The policy links it by `request->link` and may keep a number in `request->policy_word`.
 * The policy must not keep a request that is LEAVING in `finished`.
 *
 * A policy kind is one const value: its name, what it is (traits), its options, what the server
 * adds to them, and how to make an instance. Everything outside this folder learns about a policy
 * from its kind. registry.c lists the kinds; options.c reads options; default_policy.h chooses. */
#ifndef TT_POLICY_POLICY_H
#define TT_POLICY_POLICY_H

#include "core/policy_ops.h"

/* ---- options: `policy { name: "window" option { key: "max_delay" value: "5ms" } }` ---- */

enum tt_option_type {
    TT_OPTION_INTEGER,  /* -17 */
    TT_OPTION_DURATION, /* 250us, 5ms, 1s, 1500ns; becomes ns */
    TT_OPTION_PERMILLE, /* 0.75 or 75%; becomes 750 */
    TT_OPTION_CHOICE,   /* one of `choices`; becomes its index */
    TT_OPTION_SIZES,    /* 1,2,4: tt_options_sizes reads them; becomes their count */
    TT_OPTION_GROUPS,   /* 4;2,2;8,8,16: tt_options_group reads one; becomes their count */
};

struct tt_option_spec {
    const char *key;
    enum tt_option_type type;
    int64_t minimum, maximum; /* in the unit that it becomes; not for choices */
    int64_t default_value;    /* when the option is not given; below minimum: the policy decides */
    const char *choices;      /* "a|b|c" */
    const char *help;
};

struct tt_option {
    const char *key, *value;
};

enum { TT_MAX_OPTIONS = 24 };

/* The option `drop` of policies that can give requests up: value 0 keeps them. The server's
 * counterparts: TT_DROP_NONE_OPTION is `computes_late`, TT_DROP_DEADLINE_OPTION a default. */
#define TT_DROP_SPEC                                                                               \
    {                                                                                              \
        .key = "drop", .type = TT_OPTION_CHOICE, .choices = "none|deadline",                       \
        .help = "deadline: drop requests that cannot meet their deadline any more"                 \
    }
#define TT_DROP_NONE_OPTION                                                                        \
    { "drop", "none" }
#define TT_DROP_DEADLINE_OPTION                                                                    \
    { "drop", "deadline" }

/* Fills out_values[i] for specs[i] from the given options. INVALID: unknown key, given twice,
 * malformed, out of range; the message names the option, the value and what would be right. */
TT_MUST_CHECK enum tt_err tt_options_parse(const struct tt_option_spec *specs, int32_t spec_count,
                                           const struct tt_option *options, int32_t option_count,
                                           int64_t *out_values, struct tt_error *why);

/* The value of an option as it is written; NULL: not given. */
const char *tt_options_value(const char *key, const struct tt_option *options,
                             int32_t option_count);
/* True if the options give `wanted.key` with just this value. False where wanted.key is NULL. */
bool tt_options_have(struct tt_option wanted, const struct tt_option *options,
                     int32_t option_count);

/* Copies the numbers of a SIZES option to out_sizes[limit]. Returns their count, 0 when the option
 * is not given. The options have passed tt_options_parse. */
int32_t tt_options_sizes(const char *key, const struct tt_option *options, int32_t option_count,
                         int32_t *out_sizes, int32_t limit);

/* The sizes of group number `index` of a GROUPS option, in the same way; 0 when it is not given or
 * has no such group. */
int32_t tt_options_group(const char *key, const struct tt_option *options, int32_t option_count,
                         int32_t index, int32_t *out_sizes, int32_t limit);

/* True if both lists have the same options with the same values in the same order. */
bool tt_options_same(const struct tt_option *a, int32_t a_count, const struct tt_option *b,
                     int32_t b_count);

/* ---- making one ---- */

struct tt_policy_setup {
    const struct tt_mechanism *domain; /* models[] and executors[] to read; borrowed for life */
    int64_t d_ctrl_ns;                 /* S4: the time of a message to an executor */
    int64_t d_data_ns;                 /* S4: the time of one row's input */
    int64_t lateness_ns; /* maximum delay of a decision after next_at; 0 in virtual time */
    const struct tt_option *options;
    int32_t option_count;
};

/* Options by which the executors of one device are workers for batches of different sizes. */
struct tt_policy_workers {
    const char *sizes; /* key of a SIZES option: one executor for each; NULL: no such workers */
    const char *plans; /* key of a GROUPS option: the workers that count at each load */
    /* With this option and without `plans` the server supplies both options, from a measurement of
     * the workers on this machine (profile/find_workers.h). */
    struct tt_option measured;
};

/* What the server adds when a model's configuration asks for the policy. */
struct tt_policy_serving {
    /* For options that the configuration leaves out. Not for a policy that an experiment or a
     * recording imposes on all models. */
    const struct tt_option *defaults;
    int32_t default_count;
    /* With this option a batch holds inputs of one shape only. Without it, and without padding by
     * the server, models whose shapes vary are refused, unless `runs_alone`. */
    struct tt_option same_shape;
    /* With this option requests that cannot meet their deadline any more are computed all the same,
     * so the queue rules must not drop them either. */
    struct tt_option computes_late;
    struct tt_policy_workers workers;
};

struct tt_policy_kind {
    const char *name;
    const char *summary; /* one line for people */
    struct tt_policy_traits traits;
    struct tt_policy_serving serving;
    const struct tt_option_spec *options;
    int32_t option_count;
    /* values[option_count]: the setup's options, defaults for those that are not given. */
    TT_MUST_CHECK enum tt_err (*create)(const struct tt_policy_setup *setup, const int64_t *values,
                                        struct tt_policy **out_policy, struct tt_error *why);
    const struct tt_policy_ops *ops; /* only the mechanism calls them */
};

/* By name; NULL when there is none. */
const struct tt_policy_kind *tt_policy_find(const char *name);
int32_t tt_policy_count(void);
const struct tt_policy_kind *tt_policy_at(int32_t index);
/* Writes the names of the kinds that `matches` accepts (NULL: all) to `out`, separated by ", ", in
 * the order of the registry, cut off where they do not fit. Returns `out`. */
const char *tt_policy_names(bool (*matches)(const struct tt_policy_kind *kind), char *out,
                            size_t capacity);
/* A `matches` for it: the policies whose unit of work is the cell. */
bool tt_policy_is_by_cells(const struct tt_policy_kind *kind);
/* Finds the kind, makes the policy and attaches it to the mechanism that the setup reads. The
 * message of NOT_FOUND lists the names. */
TT_MUST_CHECK enum tt_err tt_policy_create(struct tt_mechanism *mechanism, const char *name,
                                           const struct tt_policy_setup *setup,
                                           struct tt_error *why);
/* Frees what tt_policy_create attached. */
void tt_policy_destroy(struct tt_mechanism *mechanism);

#endif
