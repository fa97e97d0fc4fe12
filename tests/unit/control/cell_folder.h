/* Tiny models of cells in a repository, for the tests that serve them: a chain, the same one run as
 * whole sequences, sequence to sequence, and binary trees. A word of `WORDS` or more makes a cell
 * fail, where nothing looks at words beforehand. */
#ifndef CELL_FOLDER_H
#define CELL_FOLDER_H

#include "unit/control/model_folder.h"
#include "unit/engine/tiny_models.h"

enum { WORDS = 50, SIZE = 24 };

/* Gates of an LSTM from x, h, c (all of SIZE) to h_out, c_out. */
static inline void lstm_gates(struct tiny_maker *m, const char *x) {
    tiny_int(m, "axis", 1);
    const char *xh = tiny_op(m, "Concat", NULL, x, "h", NULL, NULL);
    const char *gates[4];
    for (int i = 0; i < 4; i++) {
        const char *sum = tiny_op(m, "Gemm", NULL, xh, tiny_weight(m, TINY_DIMS(2 * SIZE, SIZE)),
                                  tiny_weight(m, TINY_DIMS(SIZE)), NULL);
        gates[i] = tiny_op(m, i == 2 ? "Tanh" : "Sigmoid", NULL, sum, NULL, NULL, NULL);
    }
    const char *kept = tiny_op(m, "Mul", NULL, gates[1], "c", NULL, NULL);
    const char *added = tiny_op(m, "Mul", NULL, gates[0], gates[2], NULL, NULL);
    tiny_op(m, "Add", "c_out", kept, added, NULL, NULL);
    const char *squashed = tiny_op(m, "Tanh", NULL, "c_out", NULL, NULL, NULL);
    tiny_op(m, "Mul", "h_out", gates[3], squashed, NULL, NULL);
}

static inline void rows(struct tiny_maker *m, bool is_input, const char *const *names, int count) {
    for (int i = 0; i < count; i++) {
        if (is_input)
            tiny_onnx_input(&m->model, names[i], TINY_FLOAT, TINY_DIMS(-1, SIZE));
        else
            tiny_onnx_output(&m->model, names[i], TINY_FLOAT, TINY_DIMS(-1, SIZE));
    }
}

static inline const char *tiny_float(struct tiny_maker *m, float value) {
    const char *name = tiny_fresh(m);
    tiny_onnx_constant(&m->model, name, TINY_FLOAT, 0, NULL, &value, sizeof(value));
    return name;
}

/* The vector of the word. */
static inline const char *embed(struct tiny_maker *m, const char *word) {
    tiny_onnx_input(&m->model, word, TINY_INT64, TINY_DIMS(-1));
    return tiny_op(m, "Gather", NULL, tiny_weight(m, TINY_DIMS(WORDS, SIZE)), word, NULL, NULL);
}

/* word, h, c to h_out, c_out; with `speaks` the next word, too. */
static inline struct tt_text recurrent_cell(uint64_t seed, bool speaks) {
    struct tiny_maker m;
    tiny_maker_begin(&m, seed);
    const char *x = embed(&m, "word");
    rows(&m, true, (const char *[]){"h", "c"}, 2);
    rows(&m, false, (const char *[]){"h_out", "c_out"}, 2);
    lstm_gates(&m, x);
    if (speaks) {
        tiny_onnx_output(&m.model, "next", TINY_INT64, TINY_DIMS(-1));
        /* Of the fractions of large multiples, so that it never says the same for long. */
        const char *large = tiny_op(&m, "Mul", NULL, "h_out", tiny_float(&m, 1000), NULL, NULL);
        const char *whole = tiny_op(&m, "Floor", NULL, large, NULL, NULL, NULL);
        const char *fraction = tiny_op(&m, "Sub", NULL, large, whole, NULL, NULL);
        fraction = tiny_op(&m, "Sub", NULL, fraction, tiny_float(&m, 0.5F), NULL, NULL);
        const char *w = tiny_weight(&m, TINY_DIMS(SIZE, WORDS));
        const char *scores = tiny_op(&m, "MatMul", NULL, fraction, w, NULL, NULL);
        tiny_int(&m, "axis", 1);
        tiny_int(&m, "keepdims", 0);
        tiny_op(&m, "ArgMax", "next", scores, NULL, NULL, NULL);
    }
    return tiny_onnx_end(&m.model);
}

static inline struct tt_text leaf_cell(uint64_t seed) {
    struct tiny_maker m;
    tiny_maker_begin(&m, seed);
    const char *x = embed(&m, "word");
    rows(&m, false, (const char *[]){"h_out", "c_out"}, 2);
    tiny_op(&m, "Tanh", "c_out", x, NULL, NULL, NULL);
    tiny_op(&m, "Tanh", "h_out", "c_out", NULL, NULL, NULL);
    return tiny_onnx_end(&m.model);
}

static inline struct tt_text inner_cell(uint64_t seed) {
    struct tiny_maker m;
    tiny_maker_begin(&m, seed);
    rows(&m, true, (const char *[]){"left_h", "left_c", "right_h", "right_c"}, 4);
    rows(&m, false, (const char *[]){"h_out", "c_out"}, 2);
    tiny_int(&m, "axis", 1);
    const char *both = tiny_op(&m, "Concat", NULL, "left_h", "right_h", NULL, NULL);
    const char *sum = tiny_op(&m, "Gemm", NULL, both, tiny_weight(&m, TINY_DIMS(2 * SIZE, SIZE)),
                              tiny_weight(&m, TINY_DIMS(SIZE)), NULL);
    const char *gate = tiny_op(&m, "Sigmoid", NULL, sum, NULL, NULL, NULL);
    const char *left = tiny_op(&m, "Mul", NULL, gate, "left_c", NULL, NULL);
    const char *right = tiny_op(&m, "Mul", NULL, gate, "right_c", NULL, NULL);
    tiny_op(&m, "Add", "c_out", left, right, NULL, NULL);
    tiny_op(&m, "Tanh", "h_out", "c_out", NULL, NULL, NULL);
    return tiny_onnx_end(&m.model);
}

static inline void make_cells(const char *name, const char *first, struct tt_text take_first,
                              const char *second, struct tt_text take_second, const char *tutti) {
    char file[64];
    make_directory(name, NULL);
    make_directory(name, "1");
    snprintf(file, sizeof(file), "1/%s.onnx", first);
    write_bytes(name, file, take_first.bytes, take_first.length);
    tt_text_fini(&take_first);
    if (second) {
        snprintf(file, sizeof(file), "1/%s.onnx", second);
        write_bytes(name, file, take_second.bytes, take_second.length);
        tt_text_fini(&take_second);
    }
    write_bytes(name, "tutti.pbtxt", tutti, strlen(tutti));
}

enum { LARGE_STATE = 1 << 18 };

/* A state of a MiB, to which each word adds one number, and that number. */
static inline struct tt_text large_cell(uint64_t seed) {
    struct tiny_maker m;
    tiny_maker_begin(&m, seed);
    tiny_onnx_input(&m.model, "word", TINY_INT64, TINY_DIMS(-1));
    tiny_onnx_input(&m.model, "h", TINY_FLOAT, TINY_DIMS(-1, LARGE_STATE));
    tiny_onnx_output(&m.model, "h_out", TINY_FLOAT, TINY_DIMS(-1, LARGE_STATE));
    tiny_onnx_output(&m.model, "last", TINY_FLOAT, TINY_DIMS(-1, 1));
    const char *table = tiny_weight(&m, TINY_DIMS(WORDS, 1));
    tiny_op(&m, "Gather", "last", table, "word", NULL, NULL);
    tiny_op(&m, "Add", "h_out", "h", "last", NULL, NULL);
    return tiny_onnx_end(&m.model);
}

#define CHAIN_CELLS                                                                                \
    "cell { file: 'lstm.onnx' max_batch: 8 read { input: 'word' from: 'words' }"                   \
    " state { output: 'h_out' input: 'h' } state { output: 'c_out' input: 'c' } }"                 \
    "unfold { kind: CHAIN max_length: 64 answer: 'h_out' }"
#define SEQ2SEQ_CELLS                                                                              \
    "cell { file: 'encoder.onnx' max_batch: 8 read { input: 'word' from: 'words' }"                \
    " state { output: 'h_out' input: 'h' } state { output: 'c_out' input: 'c' } }"                 \
    "cell { file: 'decoder.onnx' max_batch: 4 emit: 'next'"                                        \
    " state { output: 'h_out' input: 'h' } state { output: 'c_out' input: 'c' }"                   \
    " state { output: 'next' input: 'word' initial: 3 } }"                                         \
    "unfold { kind: SEQ2SEQ max_length: 64 threshold: 6 eos: 7 eos: 11 eos: 13 }"
#define TREE_CELLS                                                                                 \
    "cell { file: 'leaf.onnx' max_batch: 8 read { input: 'word' from: 'words' }"                   \
    " state { output: 'h_out' } state { output: 'c_out' } }"                                       \
    "cell { file: 'inner.onnx' max_batch: 8"                                                       \
    " state { output: 'h_out' input: 'left_h' input: 'right_h' }"                                  \
    " state { output: 'c_out' input: 'left_c' input: 'right_c' } }"                                \
    "unfold { kind: TREE max_length: 127 answer: 'h_out' }"

enum cell_kind { CHAIN, SEQ2SEQ, TREE };

/* The cells under a policy of their own, and where `config` (config.pbtxt) is written, as it says;
 * what `alone` answers, all must. */
static inline void make_cells_under(const char *name, enum cell_kind kind, const char *policy,
                                    const char *config) {
    static const char *const cells[] = {CHAIN_CELLS, SEQ2SEQ_CELLS, TREE_CELLS};
    char both[2048];
    snprintf(both, sizeof(both), "%s %s", cells[kind], policy);
    if (kind == CHAIN)
        make_cells(name, "lstm", recurrent_cell(1, false), NULL, (struct tt_text){0}, both);
    else if (kind == SEQ2SEQ)
        make_cells(name, "encoder", recurrent_cell(2, false), "decoder", recurrent_cell(3, true),
                   both);
    else
        make_cells(name, "leaf", leaf_cell(4), "inner", inner_cell(5), both);
    if (config)
        write_bytes(name, "config.pbtxt", config, strlen(config));
}

struct cell_variant {
    const char *name;
    enum cell_kind kind;
    const char *policy, *config;
};

static inline void make_variants(const struct cell_variant *variants, size_t count) {
    for (size_t i = 0; i < count; i++)
        make_cells_under(variants[i].name, variants[i].kind, variants[i].policy,
                         variants[i].config);
}

/* Each beside the same one under other policies. */
static inline void make_cell_models(void) {
    static const char serial[] = "policy { name: 'serial' }",
                      window[] = "policy { name: 'window' option { key: 'same_length' "
                                 "value: 'off' } option { key: 'max_delay' value: '1ms' } }",
                      lazy[] = "policy { name: 'lazy' }",
                      narrow[] = "policy { name: 'cellular' option { key: 'max_tasks' value: '1' "
                                 "} }";
    static const struct cell_variant variants[] = {{"chain", CHAIN, "", NULL},
                                                   {"chain_serial", CHAIN, serial, NULL},
                                                   {"chain_window", CHAIN, window, NULL},
                                                   {"chain_lazy", CHAIN, lazy, NULL},
                                                   {"seq2seq", SEQ2SEQ, "", NULL},
                                                   {"seq2seq_narrow", SEQ2SEQ, narrow, NULL},
                                                   {"seq2seq_window", SEQ2SEQ, window, NULL},
                                                   {"seq2seq_lazy", SEQ2SEQ, lazy, NULL},
                                                   {"tree", TREE, "", NULL},
                                                   {"tree_serial", TREE, serial, NULL}};
    make_variants(variants, TT_COUNT(variants));
}

/* C7: those of the baselines, and with two executors of the model's own. */
static inline void make_cell_baselines(void) {
    static const char padded[] = "length { pad: true } policy { name: 'padded' option { key: "
                                 "'width' value: '5' } }",
                      merged[] = "policy { name: 'merged' option { key: 'max_requests' value: "
                                 "'5' } }",
                      all[] = "policy { name: 'merged' }",
                      two[] = "instance_group { count: 2 kind: KIND_CPU }";
    static const struct cell_variant variants[] = {{"chain_padded", CHAIN, padded, NULL},
                                                   {"chain_merged", CHAIN, merged, NULL},
                                                   {"chain_two", CHAIN, "", two},
                                                   {"chain_padded_two", CHAIN, padded, two},
                                                   {"seq2seq_padded", SEQ2SEQ, padded, NULL},
                                                   {"seq2seq_merged", SEQ2SEQ, merged, NULL},
                                                   {"seq2seq_two", SEQ2SEQ, "", two},
                                                   {"seq2seq_padded_two", SEQ2SEQ, padded, two},
                                                   {"tree_merged", TREE, merged, NULL},
                                                   {"tree_merged_all", TREE, all, NULL},
                                                   {"tree_merged_two", TREE, merged, two},
                                                   {"tree_two", TREE, "", two}};
    make_variants(variants, TT_COUNT(variants));
}

/* C6: on the streams of the host device: one, two, and one by one. */
static inline void make_cell_devices(void) {
    static const char device[] = "device { memory_mb: 64 }",
                      narrow[] = "device { memory_mb: 64 } policy { name: 'cellular' "
                                 "option { key: 'max_tasks' value: '1' } }",
                      merged[] = "device { memory_mb: 64 } policy { name: 'merged' }",
                      two[] = "instance_group { count: 2 kind: KIND_CPU }";
    static const struct cell_variant variants[] = {{"chain_device", CHAIN, device, NULL},
                                                   {"chain_device_two", CHAIN, device, two},
                                                   {"seq2seq_device", SEQ2SEQ, device, NULL},
                                                   {"seq2seq_device_two", SEQ2SEQ, device, two},
                                                   {"seq2seq_device_narrow", SEQ2SEQ, narrow, two},
                                                   {"tree_device", TREE, device, NULL},
                                                   {"tree_device_two", TREE, device, two},
                                                   {"tree_device_merged", TREE, merged, NULL}};
    make_variants(variants, TT_COUNT(variants));
}

#endif
