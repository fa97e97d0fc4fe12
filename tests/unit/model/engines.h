/* Engines as the repository of models sees them: one that runs ONNX files and one that needs none.
 */
#ifndef UNIT_MODEL_ENGINES_H
#define UNIT_MODEL_ENGINES_H

#include "core/engine_traits.h"

static inline const struct tt_engine_list *test_engines(void) {
    static const struct tt_engine_traits onnx = {
        .name = "onnxruntime", .platform = "onnxruntime_onnx", .needs_file = true};
    static const struct tt_engine_traits emulated = {
        .name = "emulated", .platform = "emulated", .needs_profile = true, .emulates = true};
    static const struct tt_engine_traits *const traits[] = {&onnx, &emulated};
    static const struct tt_engine_list list = {.count = 2, .traits = traits};
    return &list;
}

#endif
