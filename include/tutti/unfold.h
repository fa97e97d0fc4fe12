/* Plug-ins that unfold: how a request becomes cells, in a shared object of your own.
 *
 * A model of cells (docs/FORMATS.md, "Cells") says in its tutti.pbtxt
 *
 *     unfold { kind: PLUGIN plugin: "mine.so" parameter: "..." }
 *
 * and mine.so exports one function, tutti_unfold_plugin, that gives out a table. When the model is
 * loaded the server calls `open`; for each request `unfold`, which adds the request's cells to a
 * sink; when the model goes, `close`. This header is all that a plug-in needs; build it with
 *
 *     cc -shared -fPIC -o mine.so mine.c
 *
 * Rules:
 *  - `unfold` may be called from several threads at once with the same state, which it therefore
 *    only reads. It must not keep a pointer to anything that it was given.
 *  - It runs in the server's process, on the thread that reads requests, and nobody else's are
 *    read meanwhile: microseconds are right, milliseconds are felt by every client. It cannot be
 *    interrupted: a sink that has had enough (of cells, of time) says so by refusing, and the
 *    plug-in then returns what the sink said. One that calls no sink and never returns stops the
 *    server.
 *  - Cells are numbered from 0 in the order in which they are added. A cell reads only cells that
 *    were added before it; so there are no cycles. What the last one added leaves is the answer.
 *  - In C++ the table is a `struct tutti_unfold_plugin`: without `struct` it is the function.
 *
 * The server checks everything that a plug-in says; a mistake fails the request, with a sentence.
 */
#ifndef TUTTI_UNFOLD_H
#define TUTTI_UNFOLD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes whenever a struct below does. */
#define TUTTI_UNFOLD_VERSION 1

/* A type of cell, as tutti.pbtxt lists them: its number is its place, from 0. */
struct tutti_unfold_type {
    const char *name;
    int32_t arity; /* cells that one of it reads; it may also read none, and then begins anew */
    int32_t reads_input; /* 1: it reads an element of the request */
};

struct tutti_unfold_model {
    int32_t type_count;
    const struct tutti_unfold_type *types;
    int32_t input_count; /* tensors of a request */
    const char *const *input_names;
    int64_t max_length; /* elements of the longest request that will be shown */
    int64_t max_cells;  /* of one request */
};

/* A tensor of the request: `length` elements of `element_bytes` each. */
struct tutti_unfold_tensor {
    const char *name;
    const char *datatype; /* as the inference protocol spells it: "INT64", "FP32" ... */
    const void *elements;
    size_t element_bytes;
};

struct tutti_unfold_request {
    int64_t length; /* >= 1, the same of all tensors */
    int32_t input_count;
    const struct tutti_unfold_tensor *inputs; /* in the model's order */
};

/* So many cells of one type in a row, each reading the one before: a chain; one alone is a chain of
 * 1. */
struct tutti_unfold_cells {
    int32_t type;
    int32_t count;
    /* 1: `count` is the most, the chain may end early, when a cell emits <eos>. */
    int32_t open_ended;
    /* Cell i of the chain reads element first_element + i * stride; stride 1 or -1. Of a type that
     * reads no input, both are 0. */
    int64_t first_element;
    int32_t stride;
    /* Which the first cell reads, by their last cells: numbers that `add` returned. As many as the
     * type's arity, or none. */
    int32_t source_count;
    const int32_t *sources;
};

struct tutti_unfold_sink {
    void *context;
    /* Returns the number of what was added, 0 or greater; negative: stop, and return this. */
    int32_t (*add)(void *context, const struct tutti_unfold_cells *cells);
    /* The request makes no sense: `sentence` goes to its client. Returns what to return. */
    int32_t (*refuse)(void *context, const char *sentence);
};

struct tutti_unfold_plugin {
    uint32_t version; /* TUTTI_UNFOLD_VERSION that it was compiled with; always first */
    const char *name;
    /* May be NULL. 0, or not: then the model is not loaded, and `why` (of `capacity` bytes) says
     * why. `*out_state` is handed to the others. */
    int (*open)(const struct tutti_unfold_model *model, const char *parameter, void **out_state,
                char *why, size_t capacity);
    void (*close)(void *state); /* may be NULL */
    /* 0, or what the sink returned, or another number: the request then fails. */
    int32_t (*unfold)(void *state, const struct tutti_unfold_request *request,
                      const struct tutti_unfold_sink *sink);
};

/* What the shared object exports. The table is the plug-in's, and stays. */
const struct tutti_unfold_plugin *tutti_unfold_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
