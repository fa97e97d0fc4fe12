/* Small networks of the kinds that are served, with random weights: what tests cut, run and
 * compare. Each has inputs with dimension 0 free, and is built anew from its seed. */
#ifndef TINY_MODELS_H
#define TINY_MODELS_H

#include "base/prng.h"
#include "unit/engine/tiny_onnx.h"

struct tiny_maker {
    struct tiny_onnx model;
    struct tt_prng random;
    struct tt_text attributes; /* of the node to come */
    int made;
    char names[256][24];
};

static inline void tiny_maker_begin(struct tiny_maker *self, uint64_t seed) {
    memset(self, 0, sizeof(*self));
    tiny_onnx_begin(&self->model);
    tt_prng_init(&self->random, seed, 0);
}

static inline const char *tiny_fresh(struct tiny_maker *self) {
    char *name = self->names[self->made];
    snprintf(name, sizeof(self->names[0]), "t%d", self->made++);
    return name;
}

static inline const char *tiny_weight(struct tiny_maker *self, int rank, const int64_t *dims) {
    const char *name = tiny_fresh(self);
    struct tt_text bytes;
    tt_text_init(&bytes);
    int64_t count = 1, fan = rank > 1 ? 1 : 4;
    for (int i = 0; i < rank; i++) {
        count *= dims[i];
        fan *= i > 0 ? dims[i] : 1;
    }
    for (int64_t i = 0; i < count; i++) {
        float value = (float)(int64_t)tt_prng_next(&self->random) / 9.2e18f / (float)fan * 3;
        tt_text_append(&bytes, &value, sizeof(value));
    }
    tiny_onnx_constant(&self->model, name, TINY_FLOAT, rank, dims, bytes.bytes, bytes.length);
    tt_text_fini(&bytes);
    return name;
}

static inline const char *tiny_int64s(struct tiny_maker *self, int count, const int64_t *values) {
    const char *name = tiny_fresh(self);
    tiny_onnx_constant(&self->model, name, TINY_INT64, 1, (const int64_t[]){count}, values,
                       (size_t)count * sizeof(*values));
    return name;
}

static inline void tiny_int(struct tiny_maker *self, const char *name, int64_t value) {
    struct tt_text attribute;
    tt_text_init(&attribute);
    tiny_string(&attribute, 1, name);
    tiny_number(&attribute, 3, (uint64_t)value);
    tiny_number(&attribute, 20, 2);
    tiny_message(&self->attributes, 5, &attribute);
}

static inline void tiny_ints(struct tiny_maker *self, const char *name, int count,
                             const int64_t *values) {
    struct tt_text attribute;
    tt_text_init(&attribute);
    tiny_string(&attribute, 1, name);
    for (int i = 0; i < count; i++)
        tiny_number(&attribute, 8, (uint64_t)values[i]);
    tiny_number(&attribute, 20, 7);
    tiny_message(&self->attributes, 5, &attribute);
}

/* A node whose inputs are up to four names (NULL ends them), with the attributes noted before;
 * makes `output` (NULL: a fresh name), which is returned. */
static inline const char *tiny_op(struct tiny_maker *self, const char *op, const char *output,
                                  const char *a, const char *b, const char *c, const char *d) {
    const char *inputs[] = {a, b, c, d};
    const char *made = output ? output : tiny_fresh(self);
    struct tt_text node;
    tt_text_init(&node);
    for (int i = 0; i < 4 && inputs[i]; i++)
        tiny_string(&node, 1, inputs[i]);
    tiny_string(&node, 2, made);
    char name[64];
    snprintf(name, sizeof(name), "%s/%s", op, made);
    tiny_string(&node, 3, name);
    tiny_string(&node, 4, op);
    if (self->attributes.length)
        tt_text_append(&node, self->attributes.bytes, self->attributes.length);
    tt_text_fini(&self->attributes);
    tiny_message(&self->model.graph, 1, &node);
    return made;
}

/* x [N,16] through six layers of 32 to y [N,8]. */
static inline struct tt_text tiny_mlp(uint64_t seed) {
    struct tiny_maker m;
    tiny_maker_begin(&m, seed);
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, 16));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, 8));
    const char *at = "x";
    for (int i = 0; i < 6; i++) {
        const char *w = tiny_weight(&m, TINY_DIMS(i ? 32 : 16, 32));
        const char *b = tiny_weight(&m, TINY_DIMS(32));
        at = tiny_op(&m, "Gemm", NULL, at, w, b, NULL);
        at = tiny_op(&m, i % 2 ? "Relu" : "Tanh", NULL, at, NULL, NULL, NULL);
    }
    tiny_op(&m, "MatMul", "y", at, tiny_weight(&m, TINY_DIMS(32, 8)), NULL, NULL);
    return tiny_onnx_end(&m.model);
}

static inline const char *tiny_conv(struct tiny_maker *m, const char *x, int64_t in, int64_t out,
                                    int64_t stride) {
    const char *w = tiny_weight(m, TINY_DIMS(out, in, 3, 3));
    const char *b = tiny_weight(m, TINY_DIMS(out));
    tiny_ints(m, "pads", 4, (const int64_t[]){1, 1, 1, 1});
    tiny_ints(m, "strides", 2, (const int64_t[]){stride, stride});
    return tiny_op(m, "Conv", NULL, x, w, b, NULL);
}

/* image [N,3,8,8]: three residual blocks, to y [N,5]; the first block's end is a second output, so
 * that one is carried to the end. */
static inline struct tt_text tiny_resnet(uint64_t seed) {
    struct tiny_maker m;
    tiny_maker_begin(&m, seed);
    tiny_onnx_input(&m.model, "image", TINY_FLOAT, TINY_DIMS(-1, 3, 8, 8));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, 5));
    tiny_onnx_output(&m.model, "early", TINY_FLOAT, TINY_DIMS(-1, 16));
    const char *at = tiny_op(&m, "Relu", NULL, tiny_conv(&m, "image", 3, 16, 1), NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        const char *inner =
            tiny_op(&m, "Relu", NULL, tiny_conv(&m, at, 16, 16, 1), NULL, NULL, NULL);
        inner = tiny_conv(&m, inner, 16, 16, 1);
        at = tiny_op(&m, "Relu", NULL, tiny_op(&m, "Add", NULL, inner, at, NULL, NULL), NULL, NULL,
                     NULL);
        if (i == 0) {
            const char *pooled = tiny_op(&m, "GlobalAveragePool", NULL, at, NULL, NULL, NULL);
            tiny_op(&m, "Flatten", "early", pooled, NULL, NULL, NULL);
        }
    }
    at = tiny_op(&m, "GlobalAveragePool", NULL, at, NULL, NULL, NULL);
    at = tiny_op(&m, "Flatten", NULL, at, NULL, NULL, NULL);
    tiny_op(&m, "MatMul", "y", at, tiny_weight(&m, TINY_DIMS(16, 5)), NULL, NULL);
    return tiny_onnx_end(&m.model);
}

/* [N,S,16] to heads [N,2,S,8], by a shape that is computed from the input's. */
static inline const char *tiny_heads(struct tiny_maker *m, const char *x, const char *shape,
                                     const int64_t *order) {
    const char *split = tiny_op(m, "Reshape", NULL, x, shape, NULL, NULL);
    tiny_ints(m, "perm", 4, order);
    return tiny_op(m, "Transpose", NULL, split, NULL, NULL, NULL);
}

/* x [N,S,16]: two blocks of attention with two heads and a residual, to y [N,S,16]. The target of
 * the reshapes holds N and S, computed from Shape(x): those tensors must not cross a cut. */
static inline struct tt_text tiny_attention(uint64_t seed) {
    struct tiny_maker m;
    tiny_maker_begin(&m, seed);
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, -1, 16));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, -1, 16));
    const char *dims = tiny_op(&m, "Shape", NULL, "x", NULL, NULL, NULL);
    const char *front = tiny_op(&m, "Slice", NULL, dims, tiny_int64s(&m, 1, (const int64_t[]){0}),
                                tiny_int64s(&m, 1, (const int64_t[]){2}), NULL);
    tiny_int(&m, "axis", 0);
    const char *heads =
        tiny_op(&m, "Concat", NULL, front, tiny_int64s(&m, 2, (const int64_t[]){2, 8}), NULL, NULL);
    const char *at = "x";
    for (int i = 0; i < 2; i++) {
        const char *q =
            tiny_op(&m, "MatMul", NULL, at, tiny_weight(&m, TINY_DIMS(16, 16)), NULL, NULL);
        const char *k =
            tiny_op(&m, "MatMul", NULL, at, tiny_weight(&m, TINY_DIMS(16, 16)), NULL, NULL);
        const char *v =
            tiny_op(&m, "MatMul", NULL, at, tiny_weight(&m, TINY_DIMS(16, 16)), NULL, NULL);
        q = tiny_heads(&m, q, heads, (const int64_t[]){0, 2, 1, 3});
        k = tiny_heads(&m, k, heads, (const int64_t[]){0, 2, 3, 1});
        v = tiny_heads(&m, v, heads, (const int64_t[]){0, 2, 1, 3});
        const char *scores = tiny_op(&m, "MatMul", NULL, q, k, NULL, NULL);
        tiny_int(&m, "axis", -1);
        scores = tiny_op(&m, "Softmax", NULL, scores, NULL, NULL, NULL);
        const char *mixed = tiny_op(&m, "MatMul", NULL, scores, v, NULL, NULL);
        tiny_ints(&m, "perm", 4, (const int64_t[]){0, 2, 1, 3});
        mixed = tiny_op(&m, "Transpose", NULL, mixed, NULL, NULL, NULL);
        mixed = tiny_op(&m, "Reshape", NULL, mixed, dims, NULL, NULL);
        at = tiny_op(&m, "Add", i ? "y" : NULL, at, mixed, NULL, NULL);
    }
    return tiny_onnx_end(&m.model);
}

/* One step of an LSTM of 24: x [N,24], h, c to h_out, c_out. */
static inline struct tt_text tiny_lstm(uint64_t seed) {
    struct tiny_maker m;
    tiny_maker_begin(&m, seed);
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, 24));
    tiny_onnx_input(&m.model, "h", TINY_FLOAT, TINY_DIMS(-1, 24));
    tiny_onnx_input(&m.model, "c", TINY_FLOAT, TINY_DIMS(-1, 24));
    tiny_onnx_output(&m.model, "h_out", TINY_FLOAT, TINY_DIMS(-1, 24));
    tiny_onnx_output(&m.model, "c_out", TINY_FLOAT, TINY_DIMS(-1, 24));
    tiny_int(&m, "axis", 1);
    const char *xh = tiny_op(&m, "Concat", NULL, "x", "h", NULL, NULL);
    const char *gates[4];
    for (int i = 0; i < 4; i++) {
        const char *sum = tiny_op(&m, "Gemm", NULL, xh, tiny_weight(&m, TINY_DIMS(48, 24)),
                                  tiny_weight(&m, TINY_DIMS(24)), NULL);
        gates[i] = tiny_op(&m, i == 2 ? "Tanh" : "Sigmoid", NULL, sum, NULL, NULL, NULL);
    }
    const char *kept = tiny_op(&m, "Mul", NULL, gates[1], "c", NULL, NULL);
    const char *added = tiny_op(&m, "Mul", NULL, gates[0], gates[2], NULL, NULL);
    tiny_op(&m, "Add", "c_out", kept, added, NULL, NULL);
    const char *squashed = tiny_op(&m, "Tanh", NULL, "c_out", NULL, NULL, NULL);
    tiny_op(&m, "Mul", "h_out", gates[3], squashed, NULL, NULL);
    return tiny_onnx_end(&m.model);
}

/* x [N,L] to y [N,L], element by element and by operations that do not round: so padding changes
 * nothing. (An Exp would: its kernel takes the last few elements of a run another way.) */
static inline struct tt_text tiny_elementwise(void) {
    struct tiny_maker m;
    tiny_maker_begin(&m, 1);
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, -1));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, -1));
    const char *at = tiny_op(&m, "Add", NULL, "x", "x", NULL, NULL);
    at = tiny_op(&m, "Neg", NULL, at, NULL, NULL, NULL);
    at = tiny_op(&m, "Max", NULL, at, "x", NULL, NULL);
    tiny_op(&m, "Add", "y", at, at, NULL, NULL);
    return tiny_onnx_end(&m.model);
}

/* ids [N,2] INT64 through Abs, a Gather from 100 rows of 3, and Neg, to y [N,2,3]: an id of 100 or
 * more makes the Gather fail. */
static inline struct tt_text tiny_embed(void) {
    struct tiny_maker m;
    tiny_maker_begin(&m, 4);
    tiny_onnx_input(&m.model, "ids", TINY_INT64, TINY_DIMS(-1, 2));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, 2, 3));
    const char *ids = tiny_op(&m, "Abs", "positive", "ids", NULL, NULL, NULL);
    const char *table = tiny_weight(&m, TINY_DIMS(100, 3));
    const char *rows = tiny_op(&m, "Gather", "vectors", table, ids, NULL, NULL);
    tiny_op(&m, "Neg", "y", rows, NULL, NULL, NULL);
    return tiny_onnx_end(&m.model);
}

/* x [N,4] to y [N,4], said to batch; the middle divides by the sum over the batch, so that rows
 * depend on each other. */
static inline struct tt_text tiny_liar(void) {
    struct tiny_maker m;
    tiny_maker_begin(&m, 1);
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, 4));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, 4));
    const char *at = tiny_op(&m, "Exp", NULL, "x", NULL, NULL, NULL);
    tiny_int(&m, "axis", 0);
    at = tiny_op(&m, "Softmax", "over_rows", at, NULL, NULL, NULL);
    tiny_op(&m, "Tanh", "y", at, NULL, NULL, NULL);
    return tiny_onnx_end(&m.model);
}

/* x [N,4] to y [N,4]; between the two reshapes no dimension counts the rows: no cut there. */
static inline struct tt_text tiny_detour(void) {
    struct tiny_maker m;
    tiny_maker_begin(&m, 2);
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, 4));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, 4));
    const char *at = tiny_op(&m, "Tanh", "before", "x", NULL, NULL, NULL);
    const char *flat = tiny_int64s(&m, 1, (const int64_t[]){-1});
    const char *rows = tiny_int64s(&m, 2, (const int64_t[]){-1, 4});
    at = tiny_op(&m, "Reshape", "flat", at, flat, NULL, NULL);
    at = tiny_op(&m, "Neg", "negative", at, NULL, NULL, NULL);
    at = tiny_op(&m, "Reshape", "back", at, rows, NULL, NULL);
    tiny_op(&m, "Sigmoid", "y", at, NULL, NULL, NULL);
    return tiny_onnx_end(&m.model);
}

/* x [N,S,8] through three layers of ONNX's LSTM, whose rows are dimension 1, to y [N,S,8]. */
static inline struct tt_text tiny_layers(uint64_t seed) {
    struct tiny_maker m;
    tiny_maker_begin(&m, seed);
    tiny_onnx_input(&m.model, "x", TINY_FLOAT, TINY_DIMS(-1, -1, 8));
    tiny_onnx_output(&m.model, "y", TINY_FLOAT, TINY_DIMS(-1, -1, 8));
    const char *direction = tiny_int64s(&m, 1, (const int64_t[]){1});
    tiny_ints(&m, "perm", 3, (const int64_t[]){1, 0, 2});
    const char *at = tiny_op(&m, "Transpose", NULL, "x", NULL, NULL, NULL);
    for (int i = 0; i < 3; i++) {
        const char *w = tiny_weight(&m, TINY_DIMS(1, 32, 8));
        const char *r = tiny_weight(&m, TINY_DIMS(1, 32, 8));
        tiny_int(&m, "hidden_size", 8);
        at = tiny_op(&m, "LSTM", NULL, at, w, r, NULL);
        at = tiny_op(&m, "Squeeze", NULL, at, direction, NULL, NULL);
    }
    tiny_ints(&m, "perm", 3, (const int64_t[]){1, 0, 2});
    tiny_op(&m, "Transpose", "y", at, NULL, NULL, NULL);
    return tiny_onnx_end(&m.model);
}

#endif
