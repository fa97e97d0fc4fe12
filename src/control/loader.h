/* The loader: makes a model of the repository ready to serve.
 *
 * It determines the placing (control/placing.h), loads the model into an engine, and finds its
 * profile. If the policy needs a profile and there is none, it measures one. Then it warms the
 * model up and adds it to the domain of its policy.
 *
 * Domains are made on demand, each with an engine of its own. When its last model has left, a
 * domain is closed and its threads end. Models of one policy (with equal options) share a domain
 * and its executors. A model whose configuration states a number of instances has a domain of its
 * own, with that many executors. Models that do not serve yet run on a separate executor, so
 * loading neither waits for traffic nor disturbs it.
 *
 * One thread at a time calls it. Calls may take seconds; requests are served meanwhile.
 * control/control.h decides which models are loaded, and when. */
#ifndef TT_CONTROL_LOADER_H
#define TT_CONTROL_LOADER_H

#include "base/log/log_settings.h"
#include "model/repository/repository.h"
#include "serve/serving.h"

struct tt_engine_kind;

struct tt_loader_options {
    int32_t executors;       /* per domain, for models that state no instances */
    const char *onnxruntime; /* path of the library; NULL: search for it */
    const char *python;      /* the interpreter of models in Python; NULL: python3, in PATH */
    int64_t max_load_ms;     /* that a Python process may take to load its model; 0: no limit */
    /* Places every model like this, whatever its configuration states, and without its queue rules.
     * Borrowed for life. NULL: as configured. */
    const struct tt_serving_policy *policy;
    /* Not on models whose own policy composes (core/policy_traits.h): they keep it. */
    bool keeps_composing;
    bool needs_composing; /* the others are refused */
    /* Every model, but for ensembles, runs on this kind, whatever backend its configuration names,
     * with its profile as it is: nothing is measured, probed or warmed up. `engine_context` goes to
     * its runtime. Borrowed for life. NULL: as configured. */
    const struct tt_engine_kind *engine;
    void *engine_context;
    int64_t max_model_bytes;  /* of a version, as estimated from its files; 0: no limit */
    int64_t max_models_bytes; /* of all versions that are loaded, together; 0: no limit */
    bool measure_stale;       /* a profile is of another model file or device: measure instead of
                                 rejecting the model */
    bool strict_profile;      /* a profile is of another device only: reject instead of measuring */
    bool strict_gpu; /* an instance group asks for a GPU, which its engine does not use: reject
                        instead of running it on the CPU */
    /* Receives log lines: how each model is served. Borrowed for life. */
    void (*say)(void *context, enum tt_log_level level, const char *line);
    void *say_context;
};

struct tt_loader;
struct tt_policy_candidate;

/* Errors: those of the library. */
TT_MUST_CHECK enum tt_err tt_loader_open(const struct tt_loader_options *options,
                                         struct tt_serving *serving, struct tt_loader **out_loader,
                                         struct tt_error *why);
/* All models must be unloaded, and the server must still exist. NULL-safe. */
void tt_loader_close(struct tt_loader *take_self);

/* Loads the version with index `version` of a model without problems. The model is then in its
 * domain, but not in a catalogue. `stats`: see struct tt_served_model_spec. `chosen`: the policy of
 * a model with policy auto (control/placing.h); NULL: its default. Errors: those of engine,
 * profile, warm-up, policy and domain; the message becomes the reason. */
TT_MUST_CHECK enum tt_err tt_loader_load(struct tt_loader *self,
                                         const struct tt_repository_model *model, int32_t version,
                                         struct tt_model_stats *stats,
                                         const struct tt_policy_candidate *chosen,
                                         struct tt_served_model **out_served, struct tt_error *why);
/* True if the last load failed since the model may not batch (profile/row_probe.h), and could be
 * loaded without batching. */
bool tt_loader_rows_depend(const struct tt_loader *self);
/* Removes the model from its domain and frees it. No references may be left. */
void tt_loader_unload(struct tt_loader *self, struct tt_served_model *take_served);

#endif
