#include "control/model_exits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Joins "DIR/model.onnx" and "head.onnx" to "DIR/head.onnx". The caller frees it; NULL: no
 * memory. */
static char *beside(const char *path, const char *name) {
    const char *slash = strrchr(path, '/');
    int length = slash ? (int)(slash + 1 - path) : 0;
    char *joined = NULL;
    if (asprintf(&joined, "%.*s%s", length, path, name) < 0)
        return NULL;
    return joined;
}

static bool fill(const Tutti__ModelExit *from, const char *onnx_path, char **out_path,
                 struct tt_engine_exit *to) {
    if (*from->graph && !(*out_path = beside(onnx_path, from->graph)))
        return false;
    struct tt_engine_give *gives = calloc(from->n_give + 1, sizeof(*gives));
    if (!gives)
        return false;
    for (size_t i = 0; i < from->n_give; i++)
        gives[i] = (struct tt_engine_give){from->give[i]->tensor, from->give[i]->from};
    *to = (struct tt_engine_exit){.step = from->after_stage,
                                  .to = from->go_to,
                                  .graph = *out_path,
                                  .condition = *from->condition ? from->condition : NULL,
                                  .give_count = (int32_t)from->n_give,
                                  .gives = gives};
    if (from->moved) {
        to->moved = from->moved->tensor;
        to->since = from->moved->since;
        to->less_than = from->moved->less_than;
    }
    return true;
}

enum tt_err tt_model_exits_init(struct tt_model_exits *self,
                                const struct tt_model_settings *settings, const char *onnx_path,
                                struct tt_error *why) {
    const Tutti__TuttiModel *message = settings->message;
    tt_assert(onnx_path != NULL);
    *self = (struct tt_model_exits){
        .exits = calloc(message->n_exit + 1, sizeof(*self->exits)),
        .paths = calloc(message->n_exit + 1, sizeof(char *)),
    };
    bool good = self->exits && self->paths;
    for (size_t i = 0; good && i < message->n_exit; i++, self->count++)
        good = fill(message->exit[i], onnx_path, &self->paths[i], &self->exits[i]);
    tt_assert(!good || self->count == (int32_t)message->n_exit);
    if (good)
        return TT_OK;
    tt_model_exits_fini(self);
    return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory");
}

void tt_model_exits_fini(struct tt_model_exits *self) {
    for (int32_t i = 0; self->exits && i < self->count; i++)
        free((void *)self->exits[i].gives);
    for (int32_t i = 0; self->paths && i < self->count; i++)
        free(self->paths[i]);
    free(self->exits);
    free(self->paths);
    *self = (struct tt_model_exits){0};
}
