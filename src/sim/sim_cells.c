#include "sim/sim_cells.h"

#include "base/array.h"
#include "base/prng.h"

#include <stdlib.h>
#include <string.h>

enum { LARGE_PART = 4096 };

void tt_sim_cells_fini(struct tt_sim_cells *self) {
    free(self->specs);
    free(self->sources);
    free(self->stack);
    *self = (struct tt_sim_cells){0};
}

static bool reserve(struct tt_sim_cells *self, int32_t count) {
    return TT_ARRAY_RESERVE(self->specs, &self->spec_capacity, count) &&
           TT_ARRAY_RESERVE(self->sources, &self->source_capacity, 2 * (int64_t)count) &&
           TT_ARRAY_RESERVE(self->stack, &self->stack_capacity, count);
}

/* The longest output of the model. */
static int32_t longest_output(const struct tt_step_model *model) {
    int32_t longest = model->output_quantiles ? model->output_quantiles[TT_QUANTILES - 1] : 1;
    return longest > 0 ? longest : 1;
}

/* How often a request of `length` runs the step. */
static int32_t times_run(const struct tt_step_model *model, int32_t step, int32_t length) {
    switch (model->steps[step].kind) {
    case TT_STEP_ENCODER: return length > 0 ? length : 1;
    case TT_STEP_DECODER: return longest_output(model);
    case TT_STEP_STATIC: return 1;
    }
    return 1;
}

int64_t tt_sim_cells_count(const struct tt_step_model *model, enum tt_tree shape, int32_t length) {
    if (shape != TT_TREE_NONE)
        return length > 0 ? 2 * (int64_t)length - 1 : 1;
    int64_t count = 0;
    for (int32_t step = 0; step < model->step_count; step = tt_step_last_of(model, step) + 1)
        count += times_run(model, step, length);
    return count;
}

enum tt_err tt_sim_cells_steps(struct tt_sim_cells *self, const struct tt_step_model *model,
                               int32_t length, struct tt_sim_exit exit,
                               struct tt_cell_graph **out_graph, struct tt_error *why) {
    if (!reserve(self, model->step_count))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for %d cells", model->step_count);
    int32_t count = 0;
    for (int32_t step = 0; step < model->step_count;) {
        int32_t last = tt_step_last_of(model, step);
        bool exits = exit.step >= step && exit.step <= last, leaves = exits && exit.to == 0;
        self->sources[count] = count - 1;
        self->specs[count] = (struct tt_cell_spec){
            .first_step = step,
            .last_step = last,
            .repeat = leaves ? 1 : times_run(model, step, length),
            .open_ended = !leaves && model->steps[step].kind == TT_STEP_DECODER,
            .source_count = count > 0,
            .sources = &self->sources[count]};
        count++;
        step = leaves ? model->step_count : exits ? exit.to : last + 1;
    }
    return tt_cell_graph_new(self->specs, count, model->step_count, out_graph, why);
}

static void put_leaf(struct tt_sim_cells *self, int32_t at) {
    self->specs[at] = (struct tt_cell_spec){.repeat = 1};
}

static void put_node(struct tt_sim_cells *self, int32_t at, int32_t left, int32_t right) {
    int32_t *sources = &self->sources[2 * (size_t)at];
    sources[0] = left;
    sources[1] = right;
    self->specs[at] = (struct tt_cell_spec){
        .first_step = 1, .last_step = 1, .repeat = 1, .source_count = 2, .sources = sources};
}

/* Builds a balanced tree over `count` leaves from spec `first`; internal nodes are appended at *at.
 * Returns the spec of the root. The recursion is as deep as the logarithm of the count. */
static int32_t put_balanced(struct tt_sim_cells *self, int32_t first, int32_t count, int32_t *at) {
    if (count == 1)
        return first;
    int32_t left_count = count - count / 2;
    int32_t left = put_balanced(self, first, left_count, at);
    int32_t right = put_balanced(self, first + left_count, count / 2, at);
    put_node(self, *at, left, right);
    return (*at)++;
}

/* Parse trees are unbalanced: with probability 1/2 a part of n leaves splits off one, else it
 * splits anywhere. The depths are near those of the Stanford treebank at every size. Large parts
 * are halved to bound the recursion. */
static int32_t put_drawn(struct tt_sim_cells *self, int32_t first, int32_t count, int32_t *at,
                         struct tt_prng *prng) {
    if (count == 1)
        return first;
    int32_t left_count = count - count / 2;
    if (count <= LARGE_PART)
        left_count =
            tt_prng_below(prng, 2) == 0 ? 1 : 1 + (int32_t)tt_prng_below(prng, (uint64_t)count - 1);
    int32_t left = put_drawn(self, first, left_count, at, prng);
    int32_t right = put_drawn(self, first + left_count, count - left_count, at, prng);
    put_node(self, *at, left, right);
    return (*at)++;
}

enum tt_err tt_sim_cells_draw_tree(struct tt_sim_cells *self, enum tt_tree shape, int32_t leaves,
                                   uint64_t seed, int32_t *out_count, struct tt_error *why) {
    leaves = leaves > 0 ? leaves : 1;
    if (leaves > TT_CELL_GRAPH_MAX_CELLS / 2)
        return tt_fail(TT_ERR_INVALID, why, "a tree of %d leaves; at most %d are allowed", leaves,
                       TT_CELL_GRAPH_MAX_CELLS / 2);
    if (!reserve(self, 2 * leaves))
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a tree of %d leaves", leaves);
    for (int32_t i = 0; i < leaves; i++)
        put_leaf(self, i);
    int32_t at = leaves;
    struct tt_prng prng;
    tt_prng_init(&prng, seed, UINT64_C(0x7472656500000000));
    if (shape == TT_TREE_RANDOM)
        put_drawn(self, 0, leaves, &at, &prng);
    else
        put_balanced(self, 0, leaves, &at);
    *out_count = 2 * leaves - 1;
    return TT_OK;
}

enum tt_err tt_sim_cells_tree(struct tt_sim_cells *self, const struct tt_step_model *model,
                              enum tt_tree shape, int32_t leaves, uint64_t seed,
                              struct tt_cell_graph **out_graph, struct tt_error *why) {
    int32_t count;
    enum tt_err err = tt_sim_cells_draw_tree(self, shape, leaves, seed, &count, why);
    return err ? err : tt_cell_graph_new(self->specs, count, model->step_count, out_graph, why);
}

/* A node that is being read: the index in the stack at which its children begin. */
enum { OPEN = -1 };

/* The ')' at `column` closes a node: with no child a leaf, with two an internal one. */
static enum tt_err close_node(struct tt_sim_cells *self, int32_t *depth, int32_t *count,
                              int64_t column, struct tt_error *why) {
    int32_t children = 0;
    while (*depth > 0 && self->stack[*depth - 1] != OPEN) {
        --*depth;
        children++;
    }
    if (*depth == 0)
        return tt_fail(TT_ERR_INVALID, why, "the ')' at character %lld closes nothing",
                       (long long)column);
    if (children != 0 && children != 2)
        return tt_fail(TT_ERR_INVALID, why,
                       "the node that ends at character %lld has %d children; none (a leaf) or two "
                       "are right",
                       (long long)column, children);
    int32_t *place = &self->stack[*depth - 1]; /* its '('; replaced by the node */
    if (children == 0)
        put_leaf(self, *count);
    else
        put_node(self, *count, place[1], place[2]);
    *place = (*count)++;
    return TT_OK;
}

enum tt_err tt_sim_cells_read_tree(struct tt_sim_cells *self, const char *text, int32_t *out_count,
                                   struct tt_error *why) {
    size_t length = strlen(text);
    if (length > TT_CELL_GRAPH_MAX_CELLS || !reserve(self, (int32_t)length + 1))
        return tt_fail(TT_ERR_INVALID, why, "a tree of %zu characters; at most %d are allowed",
                       length, TT_CELL_GRAPH_MAX_CELLS);
    int32_t depth = 0, count = 0;
    for (const char *at = text; *at;) {
        enum tt_err err = TT_OK;
        if (*at == '(') {
            self->stack[depth++] = OPEN;
            at++;
        } else if (*at == ')') {
            err = close_node(self, &depth, &count, at - text + 1, why);
            at++;
        } else if (*at == ' ') {
            at++;
        } else { /* a word is a leaf */
            at += strcspn(at, "() ");
            put_leaf(self, count);
            self->stack[depth++] = count++;
        }
        if (err)
            return err;
    }
    if (depth != 1 || self->stack[0] == OPEN)
        return tt_fail(TT_ERR_INVALID, why,
                       "'%.100s' is not one tree; right is one node, such as '(()(()()))'", text);
    *out_count = count;
    return TT_OK;
}

enum tt_err tt_sim_cells_text(struct tt_sim_cells *self, const struct tt_step_model *model,
                              const char *text, struct tt_cell_graph **out_graph,
                              struct tt_error *why) {
    int32_t count;
    enum tt_err err = tt_sim_cells_read_tree(self, text, &count, why);
    return err ? err : tt_cell_graph_new(self->specs, count, model->step_count, out_graph, why);
}
