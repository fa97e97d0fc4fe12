/* D8: converts the exits of a model's tutti.pbtxt to the form that engines take
 * (engine/engine_kind.h). */
#ifndef TT_CONTROL_MODEL_EXITS_H
#define TT_CONTROL_MODEL_EXITS_H

#include "engine/engine_kind.h"
#include "model/config/settings.h"

struct tt_model_exits {
    int32_t count;
    struct tt_engine_exit *exits; /* strings belong to the settings, except for the paths */
    char **paths;
};

/* `settings` must have no problems; graphs are beside `onnx_path`. Errors: NO_MEMORY. */
TT_MUST_CHECK enum tt_err tt_model_exits_init(struct tt_model_exits *self,
                                              const struct tt_model_settings *settings,
                                              const char *onnx_path, struct tt_error *why);
void tt_model_exits_fini(struct tt_model_exits *self);

#endif
