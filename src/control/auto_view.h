/* What policy auto knows of a domain, copied: its models as they are believed to be, their latest
 * requests, and the policies that all of them can have.
 *
 * Life: tt_auto_views_take() copies all domains between two turns; tt_auto_view_load() adds the
 * requests of one, outside of turns; tt_auto_views_free(). One thread owns a view. Implemented in
 * auto_view.c. */
#ifndef TT_CONTROL_AUTO_VIEW_H
#define TT_CONTROL_AUTO_VIEW_H

#include "policy/auto_policy.h"
#include "record/record_setup.h"
#include "serve/serving.h"
#include "sim/simulation.h"

struct tt_auto_view_model {
    char *name;
    struct tt_model_stats *stats; /* a reference */
    void *packed;                 /* the believed model, until it is read */
    size_t packed_bytes;
    int32_t max_length;               /* of a sequence of cells, in rounds; 0: not of cells */
    struct tt_record_model *believed; /* NULL: not read yet */
};

struct tt_auto_view {
    struct tt_policy_candidate current;
    int32_t current_index;        /* of the candidates; -1: it is none of them */
    struct tt_auto_choice choice; /* of all its models */
    int64_t changed_at;           /* the latest change of a model's policy; 0: none */
    int32_t model_count, model_capacity;
    struct tt_auto_view_model *models;
    const struct tt_step_model **step_models; /* [model_count], after _load */
    int32_t arrival_count;
    struct tt_sim_arrival *arrivals; /* in order of time, from 0 on */
    struct tt_sim_arrival *faster;   /* the same at twice the rate; part of `arrivals` */
    struct tt_auto_view *next;
};

/* Copies every domain with policy auto. `*out_views` is a list; NULL: there is none. Errors:
 * NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_auto_views_take(struct tt_serving *serving,
                                             struct tt_auto_view **out_views, struct tt_error *why);
/* Reads the believed models and the requests at `from_at` or later, the latest TT_RECENT_ARRIVALS.
 * Errors: NO_MEMORY, INVALID. */
TT_MUST_CHECK enum tt_err tt_auto_view_load(struct tt_auto_view *self, int64_t from_at,
                                            struct tt_error *why);
/* The part of _load that makes `faster`: instants are halved, and rounded down; deadlines keep
 * their distance. `arrivals` has room for twice their count. */
void tt_auto_view_add_faster(struct tt_auto_view *self);
void tt_auto_views_free(struct tt_auto_view *take_views); /* NULL-safe */
/* The shortest interval of all models with policy auto; TT_NEVER: there is none. */
int64_t tt_auto_shortest_interval(struct tt_serving *serving);

#endif
