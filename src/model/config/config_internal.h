/* Shared by the files that make a configuration: config.c (life, completion), config_tensors.c
 * (inputs and outputs), config_scheduling.c (batching, instances), config_ensemble.c (ensembles),
 * config_work.c (what they share).
 */
#ifndef TT_MODEL_CONFIG_CONFIG_INTERNAL_H
#define TT_MODEL_CONFIG_CONFIG_INTERNAL_H

#include "model/config/config.h"

struct tt_config_work {
    struct tt_model_config *config;
    const struct tt_onnx_file *onnx;
    const char *onnx_path;
    struct tt_findings *findings;
    bool no_memory;
};

/* Adds a problem (remark) that begins with file:line:column of `field` in `message`. If the field
 * is not written: of the message, or else the file's name only. */
void tt_config_problem(struct tt_config_work *work, const void *message, const char *field,
                       const char *format, ...) TT_PRINTF(4, 5);
void tt_config_remark(struct tt_config_work *work, const void *message, const char *field,
                      const char *format, ...) TT_PRINTF(4, 5);
/* An empty message, malloc'ed; NULL, and work->no_memory is set: there is no memory. */
void *tt_config_new_message(struct tt_config_work *work,
                            const ProtobufCMessageDescriptor *descriptor);
/* Replaces an empty proto3 string; sets work->no_memory if it cannot. */
void tt_config_set_string(struct tt_config_work *work, char **string, const char *value);
static inline bool tt_config_is_empty(const char *string) { return !string || !*string; }

/* config_tensors.c */
bool tt_config_can_batch(const struct tt_onnx_file *onnx, char *reason, size_t capacity);
/* True if it could batch but for the fixed size of some tensor's first dimension. */
bool tt_config_has_fixed_batch(const struct tt_onnx_file *onnx);
bool tt_config_lists_whole_shape(const struct tt_config_work *work);
void tt_config_complete_tensors(struct tt_config_work *work);
void tt_config_compare_tensors(struct tt_config_work *work);
void tt_config_derive_signature(struct tt_config_work *work);
/* config_scheduling.c */
void tt_config_complete_scheduling(struct tt_config_work *work);
void tt_config_complete_instances(struct tt_config_work *work);

/* config_ensemble.c */
bool tt_config_is_ensemble(const Inference__ModelConfig *message);
/* Instead of finding an engine. */
void tt_config_claim_ensemble(struct tt_config_work *work);
/* After the tensors are checked. */
void tt_config_take_ensemble(struct tt_config_work *work);

#endif
