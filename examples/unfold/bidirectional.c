/* A plug-in that unfolds: a sentence read from both ends.
 *
 * Three types of cell, in this order in tutti.pbtxt: one that reads the sentence forwards, one that
 * reads it backwards, and one that joins what both have at the end, which is the answer.
 *
 *     cell { file: "forward.onnx"  ... }
 *     cell { file: "backward.onnx" ... }
 *     cell { file: "join.onnx" state { output: "h" input: "forward_h" input: "backward_h" } }
 *     unfold { kind: PLUGIN plugin: "bidirectional.so" answer: "h" }
 *
 * Both chains run side by side, and share batches with those of other requests.
 *
 *     cc -shared -fPIC -I include -o bidirectional.so examples/unfold/bidirectional.c */
#include <tutti/unfold.h>

#include <stdio.h>

enum { FORWARD, BACKWARD, JOIN, TYPE_COUNT };

static int open_model(const struct tutti_unfold_model *model, const char *parameter,
                      void **out_state, char *why, size_t capacity) {
    static const struct {
        int32_t arity, reads_input;
    } wanted[TYPE_COUNT] = {{1, 1}, {1, 1}, {2, 0}};
    (void)parameter;
    *out_state = NULL; /* it needs none */
    if (model->type_count != TYPE_COUNT) {
        snprintf(why, capacity, "it wants 3 cells (forward, backward, join), and there are %d",
                 (int)model->type_count);
        return 1;
    }
    for (int i = 0; i < TYPE_COUNT; i++) {
        const struct tutti_unfold_type *type = &model->types[i];
        if (type->arity == wanted[i].arity && type->reads_input == wanted[i].reads_input)
            continue;
        snprintf(why, capacity, "cell '%s' is to read %d others and %s of the request", type->name,
                 (int)wanted[i].arity, wanted[i].reads_input ? "an element" : "nothing");
        return 1;
    }
    return 0;
}

static int32_t unfold(void *state, const struct tutti_unfold_request *request,
                      const struct tutti_unfold_sink *sink) {
    (void)state;
    int32_t length = (int32_t)request->length;
    int32_t ends[2];
    ends[0] = sink->add(
        sink->context, &(struct tutti_unfold_cells){.type = FORWARD, .count = length, .stride = 1});
    if (ends[0] < 0)
        return ends[0];
    ends[1] = sink->add(sink->context, &(struct tutti_unfold_cells){.type = BACKWARD,
                                                                    .count = length,
                                                                    .first_element = length - 1,
                                                                    .stride = -1});
    if (ends[1] < 0)
        return ends[1];
    int32_t join = sink->add(
        sink->context,
        &(struct tutti_unfold_cells){.type = JOIN, .count = 1, .source_count = 2, .sources = ends});
    return join < 0 ? join : 0;
}

const struct tutti_unfold_plugin *tutti_unfold_plugin(void) {
    static const struct tutti_unfold_plugin plugin = {.version = TUTTI_UNFOLD_VERSION,
                                                      .name = "bidirectional",
                                                      .open = open_model,
                                                      .unfold = unfold};
    return &plugin;
}
