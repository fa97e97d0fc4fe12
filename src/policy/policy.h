/* The policy contract.
 *
 * A policy decides what runs where and when in one domain: models, executors and the devices that
 * they share. It is pure:
 * - Input: events with their instants (`struct tt_policy_ops`, core/policy_ops.h).
 * - Output: inside `decide`, the mechanism's actions (tt_mechanism_run_begin/add/commit, _drop,
 *   _yield, _abort).
 * - It reads no clock, draws no random number, does no I/O, and uses no float in a decision.
 * - It allocates in `init` only, and has no file-scope state. Many instances run in one process.
 *   The simulator and the server use the same object code.
 *
 * One instant: the carrier reports all completions of the instant, then all arrivals and
 * cancellations, then calls `decide` once. So a burst can form one batch. Inside `decide` a policy
 * first drops hopeless requests, then RUNs. A request is hopeless if it can no longer meet its
 * deadline. Comparisons of times are not strict: a request that ends exactly at its deadline is in
 * time; a batch that may start exactly now may start.
 *
 * Ownership of a request:
 * - The policy owns it from `arrived` until it RUNs or DROPs it, or is notified of its
 *   cancellation.
 * - The task owns it while it runs.
 * - The policy owns it again after `finished` if it is QUEUED there. It must not keep a request
 *   that is LEAVING in `finished`.
 * The owner may use `request->link` for its lists. The policy may keep a number in
 * `request->policy_word`.
 *
 * A policy kind is one const value: its name, its traits, its options, the server's additions to
 * them, and its constructor. All code outside this folder learns about a policy from its kind only.
 * registry.c lists the kinds; options.c reads options; default_policy.h chooses the default. */
#ifndef TT_POLICY_POLICY_H
#define TT_POLICY_POLICY_H

#include "core/policy_ops.h"

/* ---- options: `policy { name: "window" option { key: "max_delay" value: "5ms" } }` ---- */

enum tt_option_type {
    TT_OPTION_INTEGER,  /* -17 */
    TT_OPTION_DURATION, /* 250us, 5ms, 1s, 1500ns; becomes ns */
    TT_OPTION_PERMILLE, /* 0.75 or 75%; becomes 750 */
    TT_OPTION_CHOICE,   /* one of `choices`; becomes its index */
    TT_OPTION_SIZES,    /* 1,2,4: read with tt_options_sizes; becomes their count */
    TT_OPTION_GROUPS,   /* 4;2,2;8,8,16: read with tt_options_group; becomes their count */
};

struct tt_option_spec {
    const char *key;
    enum tt_option_type type;
    int64_t minimum, maximum; /* in the unit of the parsed value; not for choices */
    int64_t default_value; /* used if the option is not given; below minimum: the policy decides */
    const char *choices;   /* "a|b|c" */
    const char *help;
};

struct tt_option {
    const char *key, *value;
};

enum { TT_MAX_OPTIONS = 24 };

/* Rows of a table of options. The default of a choice is its index; a range of SIZES or GROUPS is
 * of their count. */
#define TT_INTEGER_SPEC(key, minimum, maximum, default_value, help)                                \
    { key, TT_OPTION_INTEGER, minimum, maximum, default_value, NULL, help }
#define TT_DURATION_SPEC(key, minimum, maximum, default_value, help)                               \
    { key, TT_OPTION_DURATION, minimum, maximum, default_value, NULL, help }
#define TT_PERMILLE_SPEC(key, minimum, maximum, default_value, help)                               \
    { key, TT_OPTION_PERMILLE, minimum, maximum, default_value, NULL, help }
#define TT_CHOICE_SPEC(key, choices, default_value, help)                                          \
    { key, TT_OPTION_CHOICE, 0, 0, default_value, choices, help }
#define TT_SIZES_SPEC(key, minimum, maximum, help)                                                 \
    { key, TT_OPTION_SIZES, minimum, maximum, 0, NULL, help }
#define TT_GROUPS_SPEC(key, minimum, maximum, help)                                                \
    { key, TT_OPTION_GROUPS, minimum, maximum, 0, NULL, help }

/* The option `drop` of policies that can drop hopeless requests: value 0 keeps them. The server
 * uses TT_DROP_NONE_OPTION as `computes_late` and TT_DROP_DEADLINE_OPTION as a default. */
#define TT_DROP_SPEC                                                                               \
    {                                                                                              \
        .key = "drop", .type = TT_OPTION_CHOICE, .choices = "none|deadline",                       \
        .help = "deadline: drop a request that can no longer meet its deadline, at the latest as " \
                "the first of its queue; none: compute it anyway"                                  \
    }
#define TT_DROP_NONE_OPTION                                                                        \
    { "drop", "none" }
#define TT_DROP_DEADLINE_OPTION                                                                    \
    { "drop", "deadline" }

/* Fills out_values[i] for specs[i] from the given options. INVALID: an option is unknown, given
 * twice, malformed or out of range. The message names the option, the value and what would be
 * right. */
TT_MUST_CHECK enum tt_err tt_options_parse(const struct tt_option_spec *specs, int32_t spec_count,
                                           const struct tt_option *options, int32_t option_count,
                                           int64_t *out_values, struct tt_error *why);

/* The option's value as written; NULL: not given. */
const char *tt_options_value(const char *key, const struct tt_option *options,
                             int32_t option_count);
/* True if the options give `wanted.key` exactly this value. False if wanted.key is NULL. */
bool tt_options_have(struct tt_option wanted, const struct tt_option *options,
                     int32_t option_count);

/* Copies the numbers of a SIZES option to out_sizes[limit]. Returns their count; 0: not given. The
 * options must have passed tt_options_parse. */
int32_t tt_options_sizes(const char *key, const struct tt_option *options, int32_t option_count,
                         int32_t *out_sizes, int32_t limit);

/* The same for group `index` of a GROUPS option; 0: not given, or no such group. */
int32_t tt_options_group(const char *key, const struct tt_option *options, int32_t option_count,
                         int32_t index, int32_t *out_sizes, int32_t limit);

/* True if both lists have the same options with the same values in the same order. */
bool tt_options_same(const struct tt_option *a, int32_t a_count, const struct tt_option *b,
                     int32_t b_count);

/* ---- creation ---- */

struct tt_policy_kind;

struct tt_policy_setup {
    const struct tt_policy_kind *kind; /* set by tt_policy_create */
    const struct tt_mechanism
        *domain;         /* models[] and executors[] to read; borrowed for the policy's lifetime */
    int64_t d_ctrl_ns;   /* S4: transmission time of a message to an executor */
    int64_t d_data_ns;   /* S4: transmission time of one row's input */
    int64_t lateness_ns; /* maximum delay of a decision after next_at; 0 in virtual time */
    const struct tt_option *options;
    int32_t option_count;
};

/* Options that turn the executors of one device into workers for batches of different sizes. */
struct tt_policy_workers {
    const char *sizes; /* key of a SIZES option: one size per executor; NULL: no such workers */
    const char *plans; /* key of a GROUPS option: the workers that count at each load */
    /* If this option is given without `plans`, the server supplies both options. It measures the
     * workers on this machine (profile/find_workers.h). */
    struct tt_option measured;
};

/* A setting that may serve better than the defaults: `tutti plan` and policy auto try each. */
enum tt_policy_variant_use {
    TT_VARIANT_ALWAYS,
    TT_VARIANT_STAGES,  /* for models of several steps */
    TT_VARIANT_LENGTHS, /* for inputs of several lengths that are padded; the model may be whole */
};
enum { TT_POLICY_VARIANT_OPTIONS = 3 };
struct tt_policy_variant {
    enum tt_policy_variant_use use;
    int32_t option_count;
    struct tt_option options[TT_POLICY_VARIANT_OPTIONS];
};

/* The server's additions when a model's configuration names the policy. */
struct tt_policy_serving {
    /* Defaults for options that the configuration does not give. They do not apply to a policy that
     * an experiment or a recording imposes on all models. */
    const struct tt_option *defaults;
    int32_t default_count;
    /* With this option all inputs of a batch have one shape. Models whose shapes vary need this
     * option, padding by the server, or the trait `runs_alone`; otherwise they are rejected. */
    struct tt_option same_shape;
    /* With this option hopeless requests are computed anyway, so the queue rules must not drop them
     * either. */
    struct tt_option computes_late;
    struct tt_policy_workers workers;
    const struct tt_policy_variant *variants; /* besides the defaults */
    int32_t variant_count;
};

struct tt_policy_kind {
    const char *name;
    const char *summary; /* one line for the user */
    struct tt_policy_traits traits;
    struct tt_policy_serving serving;
    const struct tt_option_spec *options;
    int32_t option_count;
    size_t state_bytes; /* of struct tt_policy */
    /* Fills a zeroed state. values[option_count]: the parsed options, with defaults for those not
     * given. After an error ops->free follows; NO_MEMORY needs no message. */
    TT_MUST_CHECK enum tt_err (*init)(struct tt_policy *self, const struct tt_policy_setup *setup,
                                      const int64_t *values, struct tt_error *why);
    const struct tt_policy_ops *ops; /* called by the mechanism only */
};

/* Finds a kind by name; NULL: none. */
const struct tt_policy_kind *tt_policy_find(const char *name);
int32_t tt_policy_count(void);
const struct tt_policy_kind *tt_policy_at(int32_t index);
/* Writes the names of the kinds that `matches` accepts (NULL: all) to `out`, separated by ", ", in
 * the order of the registry, truncated to the capacity. Returns `out`. */
const char *tt_policy_names(bool (*matches)(const struct tt_policy_kind *kind), char *out,
                            size_t capacity);
/* For `matches`: the policies whose unit of work is the cell. */
bool tt_policy_is_by_cells(const struct tt_policy_kind *kind);
/* Finds the kind, creates the policy and attaches it to the mechanism that the setup reads.
 * NOT_FOUND: the message lists the names. */
TT_MUST_CHECK enum tt_err tt_policy_create(struct tt_mechanism *mechanism, const char *name,
                                           const struct tt_policy_setup *setup,
                                           struct tt_error *why);
/* Frees what tt_policy_create attached. */
void tt_policy_destroy(struct tt_mechanism *mechanism);

#endif
