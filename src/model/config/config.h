/* A model's configuration: config.pbtxt, completed from the ONNX file, checked, and converted to
 * the structs that Tutti uses.
 *
 * Life of a configuration:
 * - `_open` reads config.pbtxt. The file is optional; without it the configuration is empty.
 * - `_complete` fills in what the file leaves out, checks it against the ONNX file, and derives the
 *   parts below.
 * - `_check` compares further versions of the model with it.
 * - `_json` prints the completed configuration as Triton's config endpoint does.
 *
 * Completion follows Triton's rules, except for the default maximum batch:
 * - name, platform, backend, default_model_filename (the engine's, else "model.onnx"),
 * version_policy (latest 1) and one instance group.
 * - max_batch_size, if it is not written: 0 if some input is listed with all dimensions of the
 *   file, or if not every input and output has a free first dimension (of one name over the
 *   inputs); else the caller's default. A written 0 stays 0.
 * - Inputs that are not listed; all outputs if none is listed (a shorter list hides the others);
 *   data_type or dims that a listed tensor lacks.
 * - dynamic_batching, if max_batch_size > 1 and no scheduler is named.
 *
 * An ensemble (platform "ensemble") has no file and no engine: it lists its inputs and outputs, and
 * its steps name other models (model/config/ensemble_config.h).
 *
 * Rejected, since a client would get something other than requested: sequence batching, ragged
 * batches, batch inputs and outputs. So are backends for which this program has no engine
 * (core/engine_traits.h). Settings that only tune Triton's own machinery have no effect; a remark
 * says so. */
#ifndef TT_MODEL_CONFIG_CONFIG_H
#define TT_MODEL_CONFIG_CONFIG_H

#include "base/err.h"
#include "base/text.h"
#include "core/engine_traits.h"
#include "core/step_model.h"
#include "core/tensor.h"
#include "model/onnx/onnx_file.h"
#include "model/text/findings.h"
#include "model/text/textproto.h"
#include "model_config.pb-c.h"

enum {
    TT_MODEL_MAX_PREFERRED = 32,
    TT_MODEL_MAX_PRIORITIES = 32,
    TT_MODEL_MAX_GROUPS = 16,
    TT_MODEL_MAX_GPUS = 16,
    TT_MODEL_DEFAULT_MAX_BATCH = 64, /* used if config.pbtxt has no max_batch_size */
    TT_MODEL_LIMIT_MAX_BATCH = 65536,
};

struct tt_ensemble_config;

struct tt_model_batching {
    bool dynamic; /* false: each request runs alone */
    int64_t max_delay_ns;
    bool preserve_ordering;
    int32_t preferred_count;
    int32_t preferred[TT_MODEL_MAX_PREFERRED]; /* ascending */
    int32_t priority_count; /* number of priority levels, 1 is the most urgent; 0: none */
    int32_t default_priority;
    bool has_rules; /* config.pbtxt has some queue policy */
    struct tt_queue_rule
        rules[TT_MODEL_MAX_PRIORITIES + 1]; /* [0] without levels; [p] for level p */
};

enum tt_instance_kind { TT_INSTANCE_AUTO, TT_INSTANCE_GPU, TT_INSTANCE_CPU };

struct tt_instance_group {
    enum tt_instance_kind kind;
    int32_t count; /* >= 1; per GPU if on GPUs */
    int32_t gpu_count;
    int32_t gpus[TT_MODEL_MAX_GPUS];
};

struct tt_model_config {
    Inference__ModelConfig *message; /* the whole configuration; owned */
    char *file_name;                 /* path of config.pbtxt, even if it does not exist */
    bool from_file;
    struct tt_textproto_places places;
    const struct tt_engine_traits *engine; /* of its backend; NULL: not looked for yet */
    bool is_foreign; /* for another server: no engine has its backend, or it is no valid ensemble */
    struct tt_ensemble_config *ensemble; /* owned; NULL: a model that an engine runs. Derived */
    /* Derived by _complete: */
    bool has_default_max_batch;    /* max_batch_size is not written, and the file batches */
    struct tt_signature signature; /* as clients see it */
    /* Shapes as the model has them; they differ from the signature only after a reshape. */
    struct tt_shape engine_inputs[TT_MAX_TENSORS], engine_outputs[TT_MAX_TENSORS];
    struct tt_model_batching batching;
    bool on_gpu;     /* tutti.pbtxt places it on a GPU; set by the repository */
    bool has_groups; /* config.pbtxt has some instance group */
    int32_t group_count;
    struct tt_instance_group groups[TT_MODEL_MAX_GROUPS];
};

/* Reads `path`; or, if `json` is not NULL, reads that instead (the same message in protobuf's JSON
 * form). An absent file is no error. An unreadable one is a problem in `findings`, and
 * `*out_config` is then NULL. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_config_open(const char *path, const char *json,
                                               const char *model_name,
                                               struct tt_model_config **out_config,
                                               struct tt_findings *findings);
void tt_model_config_free(struct tt_model_config *take_config);
/* Finds the engine of the backend or platform, before any model file is read. Mistakes go to
 * `findings`; the model is then foreign. */
void tt_model_config_find_engine(struct tt_model_config *self, const struct tt_engine_list *engines,
                                 struct tt_findings *findings);
/* True for an ensemble, before _complete, too. */
bool tt_model_config_names_steps(const struct tt_model_config *self);
/* Call it once, with the ONNX file of the highest version to be served (`onnx_path` is used in
 * messages). `engines` are the engines of this program, borrowed for its life. Mistakes go to
 * `findings`; if it added a problem, the derived parts must not be used. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_config_complete(struct tt_model_config *self,
                                                   const struct tt_engine_list *engines,
                                                   const struct tt_onnx_file *onnx,
                                                   const char *onnx_path, int32_t default_max_batch,
                                                   struct tt_findings *findings);
/* The engine that the backend names; NULL: `engines` has none of that name, which _complete
 * reports. */
static inline const struct tt_engine_traits *
tt_model_config_engine(const struct tt_model_config *self, const struct tt_engine_list *engines) {
    return tt_engine_list_find(engines, self->message->backend);
}
/* For an engine that needs no file: makes the file that the model would have, from the configured
 * inputs and outputs. The caller frees it. Errors: INVALID (the missing parts were added to
 * `findings`), NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_config_as_file(const struct tt_model_config *self,
                                                  struct tt_findings *findings,
                                                  struct tt_onnx_file **out_file);
/* A decoupled model must emit words; `emits`: it does. After _complete. */
void tt_model_config_check_decoupled(const struct tt_model_config *self, bool emits,
                                     struct tt_findings *findings);
/* Checks that the file of another version fits, too. */
void tt_model_config_check(const struct tt_model_config *self, const struct tt_onnx_file *onnx,
                           const char *onnx_path, struct tt_findings *findings);
/* Keeps those of `count` versions on disk (ascending) that the version policy serves; returns their
 * number. A specific version that does not exist is a problem. */
int32_t tt_model_config_choose(const struct tt_model_config *self, int64_t *versions, int32_t count,
                               struct tt_findings *findings);
/* Appends the completed configuration as JSON. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_config_json(const struct tt_model_config *self,
                                               struct tt_text *out_json);

/* TYPE_FP32 and so on; TYPE_STRING is BYTES. NONE <-> TYPE_INVALID. */
enum tt_dtype tt_model_config_dtype(Inference__DataType type);
Inference__DataType tt_model_config_type(enum tt_dtype dtype);

#endif
