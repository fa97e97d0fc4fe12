/* tutti.pbtxt: a model's objective, policy, profile, length classes, and stages, exits or cells.
 *
 * The file is optional, and so is every field; without it all fields are zero. This module checks
 * that the length classes fit the model's signature. It does not check the policy or its options,
 * since policies are in a layer beside this one. model/cells/cells.h checks cells. */
#ifndef TT_MODEL_CONFIG_SETTINGS_H
#define TT_MODEL_CONFIG_SETTINGS_H

#include "base/err.h"
#include "core/device.h"
#include "core/network_delay.h"
#include "core/perturbation.h"
#include "core/step_model.h"
#include "core/tensor.h"
#include "model/onnx/cut.h"
#include "model/text/findings.h"
#include "model/text/textproto.h"
#include "tutti_model.pb-c.h"

enum { TT_MODEL_MAX_CLASSES = 32, TT_MODEL_MAX_EXITS = 64, TT_MODEL_MAX_PERTURBATIONS = 16 };

/* The devices of an emulated model, and what its rows cost to move there. */
struct tt_model_emulation {
    bool is_given;
    int32_t device_executors; /* >= 1 */
    struct tt_copy_engine copy_in, copy_out;
    int64_t input_bytes, output_bytes;      /* of one row */
    const Tutti__ModelEmulatedCells *cells; /* NULL: it is not one of cells; borrowed */
    struct tt_network_delay delay;          /* S4 */
    struct tt_perturbation perturbations[TT_MODEL_MAX_PERTURBATIONS]; /* since they were opened */
    int32_t perturbation_count;
};

/* The device whose streams run the model. */
struct tt_model_device {
    bool is_given;
    bool copies_whole; /* batches; else each request alone */
    bool is_cuda;      /* a GPU; else threads, or emulated */
    int32_t gpu;       /* which one, counted from 0 */
    int64_t memory_bytes;
};

struct tt_model_settings {
    Tutti__TuttiModel *message; /* owned; has the strings: policy name, options, profile */
    char *file_name;
    bool from_file;
    struct tt_textproto_places places;
    int64_t slo_ns; /* 0: none */
    struct tt_token_slo tokens;
    Tutti__ModelLate late;
    const char *policy;  /* "": derived from config.pbtxt; borrowed */
    const char *profile; /* "": profile.pbtxt if there is one; borrowed */
    int32_t class_count;
    int32_t classes[TT_MODEL_MAX_CLASSES]; /* ascending */
    bool pad;
    const Tutti__ModelStages *stages; /* NULL: the model has no stages; borrowed */
    const Tutti__ModelUnfold *unfold; /* NULL: the model is one graph, not cells; borrowed */
    int32_t input_slots;              /* 0: the default */
    struct tt_model_emulation emulation;
    struct tt_model_device device;
    int64_t max_run_ns; /* 0: the server's default */
    /* L3: [p] elements or fewer in p percent of the outputs; 0: no limit known. */
    int32_t output_quantiles[TT_QUANTILES];
};

/* True for a model of cells with states in place. */
static inline bool tt_model_settings_has_caches(const struct tt_model_settings *self) {
    for (size_t i = 0; i < self->message->n_cell; i++)
        for (size_t j = 0; j < self->message->cell[i]->n_state; j++)
            if (self->message->cell[i]->state[j]->in_place)
                return true;
    return false;
}
/* True for a model of cells, real or emulated. */
static inline bool tt_model_settings_has_cells(const struct tt_model_settings *self) {
    return self->unfold || self->emulation.cells;
}

/* True if its requests may unfold into more than sequences. */
bool tt_model_settings_has_trees(const struct tt_model_settings *self);

/* As tt_model_config_open: an absent file is no error; an unreadable one is a problem, and
 * `*out_settings` is then NULL. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_settings_open(const char *path,
                                                 struct tt_model_settings **out_settings,
                                                 struct tt_findings *findings);
void tt_model_settings_free(struct tt_model_settings *take_settings);
/* Checks that the length classes fit the model. */
void tt_model_settings_check(const struct tt_model_settings *self,
                             const struct tt_signature *signature, struct tt_findings *findings);
/* The cut that `stages` requests; call it only if there was no problem. Names are borrowed from the
 * settings. */
struct tt_cut_request tt_model_settings_cut(const struct tt_model_settings *self);
/* Adds a problem that begins with file:line:column of `field` in `message` (or of the message if
 * the field is not written). */
void tt_model_settings_problem(const struct tt_model_settings *self, struct tt_findings *findings,
                               const void *message, const char *field, const char *format, ...)
    TT_PRINTF(5, 6);

#endif
