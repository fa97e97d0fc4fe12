/* A model's configuration: config.pbtxt, completed from the ONNX file, checked, and turned into
 * what Tutti acts on.
 *
 * Life of one: `_open` reads config.pbtxt (or begins with an empty one where there is none: the
 * file is optional);
 * `_complete` fills in what it leaves out, checks what it says against the ONNX file, and derives
 * the parts below;
 * `_check` compares further versions of the model with it; `_json` shows the completed whole as
 * Triton's config endpoint does.
 *
 * How it is completed (Triton's rules, but for the default maximum):
 * - name, platform, backend, default_model_filename ("model.onnx"), version_policy (latest 1) and
 * one instance group;
 * - max_batch_size, where it is not written at all: 0 if some input is listed with all dimensions
 * of the file, or if not every input and output has a free first dimension (of one name over the
 * inputs); else the caller's default. A written 0 stays 0;
 * - inputs that are not listed, all outputs if none is listed (a shorter list hides the others),
 * and data_type or dims that a listed tensor lacks;
 * - dynamic_batching, where max_batch_size > 1 and no scheduler is named.
 *
 * Read but refused, since a client would get something else than it asked for: sequence batching,
 * ensembles, decoupled models, ragged batches, batch inputs and outputs, and backends that
 * this program has no engine for (core/engine_traits.h). Read and without effect (a remark says
 * so): what tunes Triton's own machinery. */
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
    TT_MODEL_DEFAULT_MAX_BATCH = 64, /* where config.pbtxt does not say */
    TT_MODEL_LIMIT_MAX_BATCH = 65536,
};

struct tt_model_batching {
    bool dynamic; /* else each request runs alone */
    int64_t max_delay_ns;
    bool preserve_ordering;
    int32_t preferred_count;
    int32_t preferred[TT_MODEL_MAX_PREFERRED]; /* ascending */
    int32_t priority_count; /* levels 1 (most urgent) .. priority_count; 0: none */
    int32_t default_priority;
    bool has_rules; /* some queue policy is written */
    struct tt_queue_rule
        rules[TT_MODEL_MAX_PRIORITIES + 1]; /* [0] without levels; [p] of level p */
};

enum tt_instance_kind { TT_INSTANCE_AUTO, TT_INSTANCE_GPU, TT_INSTANCE_CPU };

struct tt_instance_group {
    enum tt_instance_kind kind;
    int32_t count; /* >= 1; per GPU where on GPUs */
    int32_t gpu_count;
    int32_t gpus[TT_MODEL_MAX_GPUS];
};

struct tt_model_config {
    Inference__ModelConfig *message; /* the whole */
    char *file_name;                 /* of config.pbtxt, also where it does not exist */
    bool from_file;
    struct tt_textproto_places places;
    /* Derived by _complete: */
    const struct tt_engine_traits *engine; /* of its backend */
    struct tt_signature signature;         /* as clients see it */
    /* Shapes on the model's side; differ from the signature's only where there is a reshape. */
    struct tt_shape engine_inputs[TT_MAX_TENSORS], engine_outputs[TT_MAX_TENSORS];
    struct tt_model_batching batching;
    bool has_groups; /* some instance group is written */
    int32_t group_count;
    struct tt_instance_group groups[TT_MODEL_MAX_GROUPS];
};

/* Reads `path`, or instead of it `json` (the same message in protobuf's JSON form) where that is
 * not NULL. A file that is absent is fine; what cannot be read is a problem in `findings`, and
 * `*out_config` is then NULL. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_config_open(const char *path, const char *json,
                                               const char *model_name,
                                               struct tt_model_config **out_config,
                                               struct tt_findings *findings);
void tt_model_config_free(struct tt_model_config *take_config);
/* Once, with the ONNX file of the highest version to be served (`onnx_path` is for messages).
 * `engines` are those that could run it, for the program's life. What is wrong goes to `findings`;
 * where it added a problem, the derived parts must not be used. Errors: NO_MEMORY. */
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
/* For an engine that needs no file: what the model's file would say, from the inputs and outputs as
 * configured. INVALID: what is missing was added to `findings`. Errors: NO_MEMORY. The caller frees
 * it. */
TT_MUST_CHECK enum tt_err tt_model_config_as_file(const struct tt_model_config *self,
                                                  struct tt_findings *findings,
                                                  struct tt_onnx_file **out_file);
/* Does this other version's file fit, too? */
void tt_model_config_check(const struct tt_model_config *self, const struct tt_onnx_file *onnx,
                           const char *onnx_path, struct tt_findings *findings);
/* Of `count` versions found on disk (ascending), drops those that the version policy does not
 * serve; returns how many are left. A specific version that does not exist is a problem. */
int32_t tt_model_config_choose(const struct tt_model_config *self, int64_t *versions, int32_t count,
                               struct tt_findings *findings);
/* Appends the completed configuration as JSON. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_config_json(const struct tt_model_config *self,
                                               struct tt_text *out_json);

/* TYPE_FP32 and its kin; TYPE_STRING is BYTES. NONE <-> TYPE_INVALID. */
enum tt_dtype tt_model_config_dtype(Inference__DataType type);
Inference__DataType tt_model_config_type(enum tt_dtype dtype);

#endif
