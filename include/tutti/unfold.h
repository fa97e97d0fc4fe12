/* Plug-ins that unfold: a shared object that turns a request into cells.
 *
 * A model of cells (docs/SERVING.md) names the plug-in in its tutti.pbtxt:
 *
 *     unfold { kind: PLUGIN plugin: "mine.so" parameter: "..." }
 *
 * mine.so exports one function, tutti_unfold_plugin, that returns a table. The server calls `open`
 * when it loads the model, `unfold` for each request, and `close` when it unloads the model.
 * `unfold` adds the request's cells to a sink. A plug-in needs no other header; build it with
 *
 *     cc -shared -fPIC -o mine.so mine.c
 *
 * Rules:
 *  - Threads: `unfold` may be called from several threads at once with the same state. It must only
 *    read the state, and must not keep a pointer to its arguments.
 *  - Time: it runs in the server's process, on the thread that reads requests. No other request is
 *    read meanwhile, so it should take microseconds.
 *  - Limits: it cannot be interrupted. A sink that has reached a limit (of cells, of time) refuses;
 *    the plug-in then returns the sink's value. A plug-in that never returns stops the server.
 *  - Order: cells are numbered from 0 in the order in which they are added. A cell reads only cells
 *    that were added before it, so there are no cycles. The last cell's outputs are the answer.
 *  - In C++ the table is a `struct tutti_unfold_plugin`: without `struct` the name is the function.
 *
 * The server checks what a plug-in adds. A mistake fails the request with an error message.
 */
#ifndef TUTTI_UNFOLD_H
#define TUTTI_UNFOLD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with each struct below. */
#define TUTTI_UNFOLD_VERSION 1

/* A type of cell. Its number is its place in tutti.pbtxt, from 0. */
struct tutti_unfold_type {
    const char *name;
    int32_t arity;       /* cells that one of this type reads; or it reads none, and begins anew */
    int32_t reads_input; /* 1: it reads an element of the request */
};

struct tutti_unfold_model {
    int32_t type_count;
    const struct tutti_unfold_type *types;
    int32_t input_count; /* tensors of a request */
    const char *const *input_names;
    int64_t max_length; /* elements of the longest request */
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

/* A chain: `count` cells of one type, each of which reads the one before. */
struct tutti_unfold_cells {
    int32_t type;
    int32_t count;
    /* 1: `count` is the maximum; the chain ends early if a cell emits <eos>. */
    int32_t open_ended;
    /* Cell i of the chain reads element first_element + i * stride; stride is 1 or -1. Both are 0
     * if the type reads no input. */
    int64_t first_element;
    int32_t stride;
    /* The chains whose last cells the first cell reads: numbers that `add` returned. As many as the
     * type's arity, or none. */
    int32_t source_count;
    const int32_t *sources;
};

struct tutti_unfold_sink {
    void *context;
    /* Returns the number of the added chain, 0 or greater. Negative: stop and return this value. */
    int32_t (*add)(void *context, const struct tutti_unfold_cells *cells);
    /* Rejects the request; `sentence` is sent to its client. Returns the value to return. */
    int32_t (*refuse)(void *context, const char *sentence);
};

struct tutti_unfold_plugin {
    uint32_t version; /* TUTTI_UNFOLD_VERSION at compile time; always first */
    const char *name;
    /* May be NULL. Returns 0, or another value if the model must not be loaded; `why` (of
     * `capacity` bytes) then holds the reason. `*out_state` is passed to the other functions. */
    int (*open)(const struct tutti_unfold_model *model, const char *parameter, void **out_state,
                char *why, size_t capacity);
    void (*close)(void *state); /* may be NULL */
    /* Returns 0, or the sink's value, or another number; if not 0 the request fails. */
    int32_t (*unfold)(void *state, const struct tutti_unfold_request *request,
                      const struct tutti_unfold_sink *sink);
};

/* The shared object exports this function. The plug-in owns the table, which stays valid. */
const struct tutti_unfold_plugin *tutti_unfold_plugin(void);

#ifdef __cplusplus
}
#endif

#endif
