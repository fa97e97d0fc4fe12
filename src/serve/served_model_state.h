/* struct tt_served_model: see serve/served_model.h for its life. Types only: there is no .c file.
 */
#ifndef TT_SERVE_SERVED_MODEL_STATE_H
#define TT_SERVE_SERVED_MODEL_STATE_H

#include "base/list.h"
#include "base/threads/refcount.h"
#include "core/step_model.h"
#include "engine/cell_slots.h"
#include "engine/engine.h"
#include "model/cells/cells.h"
#include "serve/blank_rows.h"
#include "serve/cell_caches.h"
#include "serve/model_stats.h"
#include "serve/short_runs.h"

struct tt_auto_choice;
struct tt_domain;
struct tt_ensemble;
struct tt_input_ring;
struct tt_recent_arrivals;
struct tt_trace_tap;
struct tt_unfolder;

/* Of a model of cells. */
struct tt_served_cells {
    struct tt_cells *cells;       /* owned */
    struct tt_cell_slots slots;   /* the scheduler's */
    struct tt_cell_caches caches; /* the scheduler's */
    struct tt_trace_tap *tap;     /* its domain's; NULL: no trace is kept */
    bool by_cell;                 /* its policy works by cells; else by sequences, */
    bool by_step; /* L6: which it takes cell by cell: each type is a recurrent block */
    /* Emulated cells on the streams of a device: the time that a task adds, and that per row that
     * it gathers. */
    int64_t task_ns, gather_row_ns;
    int32_t output_quantiles[TT_QUANTILES]; /* by step: the cells', or the maximum */
};

struct tt_served_model {
    char *name, *version, *platform, *config_json;
    const char *policy;            /* for people; NULL: it was never placed */
    char chosen_policy[64];        /* the same, of policy auto: "auto (adaptive)" */
    struct tt_auto_choice *choice; /* owned; NULL: its policy is not auto */
    int64_t estimated_bytes;       /* of memory, from its file; 0: not known */
    const char *profile_source;    /* "file", "measured" or "none"; static storage */
    char *reason;                  /* why it does not serve; NULL when it does */
    struct tt_counter is_held;     /* 1: it is held (tt_serving_hold_model) */
    struct tt_engine_model *engine_model;
    struct tt_signature *signature;        /* as clients see it; inputs in the engine's order */
    int32_t shown_outputs[TT_MAX_TENSORS]; /* the engine's index of each output in it */
    struct tt_served_cells *cells;         /* NULL: one graph; owned */
    bool composes;                /* its configuration's policy does (core/policy_traits.h) */
    struct tt_cells *described;   /* owned; cells that its engine runs as whole requests; NULL */
    struct tt_ensemble *ensemble; /* owned; NULL: an engine runs it */
    void (*free_ensemble)(struct tt_ensemble *take_ensemble);
    struct tt_unfolder *unfolder; /* owned; NULL: it has no unfold plug-in */
    void (*free_unfolder)(struct tt_unfolder *take_unfolder);
    struct tt_profile *profile;        /* owned; of the whole */
    struct tt_profile **step_profiles; /* owned; [step_count], or NULL: the whole's for all */
    struct tt_step *steps;             /* [step_count] */
    struct tt_step_model step_model;
    int32_t *preferred, *classes;
    int32_t class_count;
    int32_t priority_count, default_priority;
    struct tt_queue_rule *rules; /* [priority_count + 1]; NULL: none */
    bool honours_timeout, preserve_ordering;
    int32_t input_slots;             /* configured; 0: the default */
    int64_t max_run_ns;              /* of a batch (serve/watchdog.h); constant once it is placed */
    char failure[256];               /* the scheduler's: why it fails all requests; "": it serves */
    struct tt_blank_rows blank;      /* the scheduler's: what fills batches up */
    struct tt_input_ring *inputs;    /* owned; NULL: its policy does not wait for inputs */
    struct tt_short_runs short_runs; /* the scheduler's */
    int32_t reported_stage_slots;    /* the scheduler's: its share of stats->stage_slots_used */
    struct tt_list in_order; /* the scheduler's: inferences whose answers keep their order */
    bool pad;
    bool varies;              /* requests choose some dimension besides the rows */
    struct tt_domain *domain; /* NULL: none yet, or none any more */
    int32_t index;            /* in the domain */
    struct tt_model_stats *stats;
    struct tt_recent_arrivals *recent; /* the statistics'; NULL: its policy is not auto */
    struct tt_refcount users;
    void (*unused)(void *context, struct tt_served_model *model); /* NULL: it is freed */
    void *unused_context;
    struct tt_served_model *next;        /* its owner's */
    struct tt_served_model *next_failed; /* the same */
};

#endif
