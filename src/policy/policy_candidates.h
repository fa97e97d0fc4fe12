/* Which policies, with which options, can run the models of a domain. `tutti plan` and policy auto
 * try the candidates of this one list.
 *
 * A caller states what its models need, and joins the needs of models that share a domain. The list
 * follows from these needs and from what each kind states about itself: its traits, the server's
 * defaults, its variants and its workers. A kind can be in it several times: with the defaults of
 * the server, with each variant, and with workers for batches of all sizes. It is sorted: simple
 * policies first, and a kind with fewer options before the same with more.
 *
 * Candidates are values: their texts are static, and they can be copied. Pure. */
#ifndef TT_POLICY_POLICY_CANDIDATES_H
#define TT_POLICY_POLICY_CANDIDATES_H

#include "policy/policy.h"

/* What the models of a domain need. All zero: one graph, inputs of one shape. */
struct tt_policy_needs {
    bool has_graphs;   /* some model is no model of cells */
    bool has_cells;    /* some model is: a step runs more than once per request */
    bool has_trees;    /* of these, requests that are no sequences */
    bool has_stages;   /* some model has several steps */
    bool mixes_shapes; /* requests of a model differ in shape, and nothing pads them */
    bool has_lengths;  /* they differ in length and are padded */
    bool has_ring;     /* a ring of inputs is configured, so the policy must wait for inputs */
    int32_t max_batch; /* rows, of the largest model */
    /* Executors that can share the domain's processors or device; 0: their number is fixed, so no
     * policy of workers is a candidate. */
    int32_t worker_limit;
};

/* Adds the needs of another model of the domain. *self with max_batch 0 has no model yet. */
void tt_policy_needs_join(struct tt_policy_needs *self, const struct tt_policy_needs *other);

enum { TT_POLICY_MAX_CANDIDATES = 32, TT_POLICY_CANDIDATE_OPTIONS = 4 };

struct tt_policy_candidate {
    const struct tt_policy_kind *policy; /* NULL: none */
    struct tt_option options[TT_POLICY_CANDIDATE_OPTIONS];
    int32_t option_count;
};

/* The policy with the options that the server adds by default. */
struct tt_policy_candidate tt_policy_candidate_of(const struct tt_policy_kind *policy);
/* Writes at most TT_POLICY_MAX_CANDIDATES. Returns their count. */
int32_t tt_policy_candidates(const struct tt_policy_needs *needs, struct tt_policy_candidate *out);

/* The executors that its workers need; 0: it has none. */
int32_t tt_policy_candidate_workers(const struct tt_policy_candidate *self);
/* True if a domain of this policy and these options is this candidate, perhaps with more options.
 */
bool tt_policy_candidate_matches(const struct tt_policy_candidate *self, const char *policy,
                                 const struct tt_option *options, int32_t option_count);
/* The candidate that matches with the most options; -1: none. */
int32_t tt_policy_candidate_find(const struct tt_policy_candidate *candidates, int32_t count,
                                 const char *policy, const struct tt_option *options,
                                 int32_t option_count);
/* For people: its name, and in brackets the options that differ from the server's. Truncated to the
 * capacity. Returns `out`. */
const char *tt_policy_candidate_text(const struct tt_policy_candidate *self, char *out,
                                     size_t capacity);

#endif
