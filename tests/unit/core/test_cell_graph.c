/* C3: how a request by cells is cut into subgraphs, and what is ready when; and random graphs
 * against a naive model. */
#include "core/cell_graph.h"

#include "base/prng.h"
#include "unit/seed.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { STEPS = 4, MAX_SPECS = 40, MAX_SOURCES = 3, GRAPHS = 20000 };

static struct tt_cell_spec cell(int32_t type, int32_t repeat, int32_t count, const int32_t *from) {
    return (struct tt_cell_spec){.first_step = type,
                                 .last_step = type,
                                 .repeat = repeat,
                                 .source_count = count,
                                 .sources = from};
}
#define READS(...)                                                                                 \
    (int32_t)(sizeof((int32_t[]){__VA_ARGS__}) / sizeof(int32_t)), (const int32_t[]) { __VA_ARGS__ }
#define NOTHING 0, NULL

static struct tt_cell_graph *made(const struct tt_cell_spec *specs, int32_t count) {
    struct tt_cell_graph *graph = NULL;
    struct tt_error why;
    assert_int_equal(tt_cell_graph_new(specs, count, STEPS, &graph, &why), TT_OK);
    tt_cell_graph_check(graph);
    return graph;
}

/* ---- one graph by hand, driven as by the mechanism ---- */

static void count_released(void *context, struct tt_cell_subgraph *subgraph) {
    assert_int_equal(subgraph->waits_for, 0);
    ++*(int32_t *)context;
}

/* Takes and submits the next ready cell. */
static int32_t submit(struct tt_cell_graph *graph, struct tt_cell_subgraph *subgraph) {
    int32_t number = tt_cell_subgraph_take(graph, subgraph);
    tt_cell_subgraph_submitted(graph, subgraph, number);
    subgraph->in_flight++;
    subgraph->executor = 0;
    return number;
}

/* The last cell of the subgraph's oldest submission is back. Returns the number of subgraphs that
 * it released. */
static int32_t complete(struct tt_cell_graph *graph, struct tt_cell_subgraph *subgraph, bool ends) {
    int32_t released = 0;
    if (--subgraph->in_flight == 0)
        subgraph->executor = -1;
    if (!subgraph->over && (ends || tt_cell_subgraph_done(subgraph) == subgraph->count))
        tt_cell_subgraph_over(graph, subgraph, count_released, &released);
    tt_cell_graph_check(graph);
    return released;
}

/* ---- cutting ---- */

static void a_chain_is_one_subgraph_and_its_cells_follow_submission(void **state) {
    (void)state;
    struct tt_cell_graph *graph = made((struct tt_cell_spec[]){cell(2, 3, NOTHING)}, 1);
    assert_int_equal(graph->subgraph_count, 1);
    assert_int_equal(graph->cell_count, 3);
    assert_null(graph->cells); /* no memory per cell */
    struct tt_cell_subgraph *chain = &graph->subgraphs[0];
    assert_true(chain->is_chain);
    assert_int_equal(chain->first_step, 2);
    for (int32_t i = 0; i < 3; i++) { /* all in flight, none back */
        assert_int_equal(chain->ready, 1);
        assert_int_equal(submit(graph, chain), i);
    }
    assert_int_equal(chain->ready, 0);
    for (int32_t i = 0; i < 3; i++) {
        assert_false(chain->over);
        complete(graph, chain, false);
    }
    assert_true(chain->over);
    assert_int_equal(graph->over_count, 1);
    tt_cell_graph_free(graph);
}

static void a_cell_taken_makes_none_ready_before_the_task_is_submitted(void **state) {
    (void)state;
    struct tt_cell_graph *graph = made((struct tt_cell_spec[]){cell(0, 2, NOTHING)}, 1);
    struct tt_cell_subgraph *chain = &graph->subgraphs[0];
    int32_t number = tt_cell_subgraph_take(graph, chain);
    assert_int_equal(chain->ready, 0); /* the next cell may not share its batch */
    tt_cell_subgraph_submitted(graph, chain, number);
    assert_int_equal(chain->ready, 1);
    tt_cell_graph_free(graph);
}

static void a_decoder_waits_for_the_encoders_end(void **state) {
    (void)state;
    struct tt_cell_spec specs[] = {cell(0, 2, NOTHING), cell(1, 5, READS(0))};
    specs[1].open_ended = true;
    struct tt_cell_graph *graph = made(specs, 2);
    assert_int_equal(graph->subgraph_count, 2);
    struct tt_cell_subgraph *encoder = &graph->subgraphs[0], *decoder = &graph->subgraphs[1];
    assert_int_equal(encoder->waits_for, 0);
    assert_int_equal(decoder->waits_for, 1);
    assert_true(decoder->open_ended && !encoder->open_ended);
    submit(graph, encoder);
    submit(graph, encoder);
    assert_int_equal(decoder->waits_for, 1); /* submission is not enough */
    assert_int_equal(complete(graph, encoder, false), 0);
    assert_int_equal(complete(graph, encoder, false), 1);
    /* The end is found at the second cell, with a third in flight. */
    for (int32_t i = 0; i < 3; i++)
        submit(graph, decoder);
    complete(graph, decoder, false);
    complete(graph, decoder, true);
    assert_true(decoder->over);
    assert_int_equal(decoder->ready, 0);
    assert_int_equal(graph->over_count, 2);
    complete(graph, decoder, false);
    assert_int_equal(graph->over_count, 2);
    tt_cell_graph_free(graph);
}

/* Leaves 0-3, inner nodes 4 (0, 1), 5 (2, 3), 6 (4, 5). Each leaf is a subgraph, the inner nodes
 * are one. */
static void a_tree_is_its_leaves_and_one_subgraph_of_inner_nodes(void **state) {
    (void)state;
    struct tt_cell_graph *graph =
        made((struct tt_cell_spec[]){cell(0, 1, NOTHING), cell(0, 1, NOTHING), cell(0, 1, NOTHING),
                                     cell(0, 1, NOTHING), cell(1, 1, READS(0, 1)),
                                     cell(1, 1, READS(2, 3)), cell(1, 1, READS(4, 5))},
             7);
    assert_int_equal(graph->subgraph_count, 5);
    struct tt_cell_subgraph *inner = &graph->subgraphs[4];
    assert_int_equal(inner->count, 3);
    assert_int_equal(inner->waits_for, 4);
    assert_int_equal(inner->ready, 2);
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(submit(graph, &graph->subgraphs[i]), 0);
    for (int32_t i = 0; i < 4; i++)
        assert_int_equal(complete(graph, &graph->subgraphs[i], false), i == 3);
    assert_int_equal(submit(graph, inner), 4);
    assert_int_equal(inner->ready, 1);
    assert_int_equal(submit(graph, inner), 5);
    assert_int_equal(inner->ready, 1); /* the root, by submission */
    assert_int_equal(submit(graph, inner), 6);
    for (int32_t i = 0; i < 3; i++)
        complete(graph, inner, false);
    assert_int_equal(graph->over_count, 5);
    tt_cell_graph_free(graph);
}

/* 0 and 2 are of one type and connected, but 2 also reads 1, which reads 0. As one subgraph, 0 and
 * 2 would wait for 1, which waits for them. */
static void what_would_wait_for_itself_is_cut(void **state) {
    (void)state;
    struct tt_cell_graph *graph = made(
        (struct tt_cell_spec[]){cell(0, 1, NOTHING), cell(1, 1, READS(0)), cell(0, 1, READS(0, 1))},
        3);
    assert_int_equal(graph->subgraph_count, 3);
    assert_int_equal(graph->subgraphs[2].waits_for, 2);
    tt_cell_graph_free(graph);
    /* The same through a sibling: 0 and 1 are connected, 3 reads 1 and 2, 2 reads 0. */
    graph = made((struct tt_cell_spec[]){cell(0, 1, NOTHING), cell(0, 1, READS(0)),
                                         cell(1, 1, READS(0)), cell(0, 1, READS(1, 2))},
                 4);
    assert_int_equal(graph->subgraph_of[0], graph->subgraph_of[1]);
    assert_int_not_equal(graph->subgraph_of[1], graph->subgraph_of[3]);
    assert_int_equal(graph->subgraph_count, 3);
    tt_cell_graph_free(graph);
}

static void repeated_cells_are_a_subgraph_alone(void **state) {
    (void)state;
    struct tt_cell_graph *graph = made(
        (struct tt_cell_spec[]){cell(0, 1, NOTHING), cell(0, 4, READS(0)), cell(0, 1, READS(1))},
        3);
    assert_int_equal(graph->subgraph_count, 3);
    assert_int_equal(graph->cell_count, 6);
    tt_cell_graph_free(graph);
}

/* One cell that "may end after any" has no end to find: the cells that it is connected with run. */
static void a_row_of_one_has_no_open_end(void **state) {
    (void)state;
    struct tt_cell_spec specs[] = {cell(0, 1, NOTHING), cell(0, 1, READS(0))};
    specs[0].open_ended = true;
    struct tt_cell_graph *graph = made(specs, 2);
    assert_int_equal(graph->subgraph_count, 1);
    assert_false(graph->subgraphs[0].open_ended);
    tt_cell_graph_free(graph);
}

/* ---- rejected specs ---- */

static void refused(const struct tt_cell_spec *specs, int32_t count, const char *says) {
    struct tt_cell_graph *graph = NULL;
    struct tt_error why;
    assert_int_equal(tt_cell_graph_new(specs, count, STEPS, &graph, &why), TT_ERR_INVALID);
    assert_null(graph);
    if (!strstr(why.text, says))
        fail_msg("\"%s\" does not say \"%s\"", why.text, says);
}

static void bad_cells_are_refused_by_number(void **state) {
    (void)state;
    struct tt_cell_spec fine = cell(0, 1, NOTHING);
    struct tt_cell_spec row = {.first_step = 2, .last_step = 1, .repeat = 1};
    refused(&fine, 0, "a request has no cell");
    refused((struct tt_cell_spec[]){fine, cell(STEPS, 1, NOTHING)}, 2,
            "cell 1 runs the steps 4 to 4; the model's are 0 to 3");
    refused((struct tt_cell_spec[]){cell(-1, 1, NOTHING)}, 1, "cell 0 runs the steps -1 to -1");
    refused(&row, 1, "cell 0 runs the steps 2 to 1");
    refused((struct tt_cell_spec[]){fine, cell(0, 0, NOTHING)}, 2, "cell 1 is repeated 0 times");
    refused((struct tt_cell_spec[]){fine, cell(0, 1, READS(1))}, 2, "cell 1 reads cell 1");
    refused((struct tt_cell_spec[]){fine, cell(0, 1, READS(0, 7))}, 2, "cell 1 reads cell 7");
    refused((struct tt_cell_spec[]){fine, cell(0, 1, READS(-1))}, 2, "cell 1 reads cell -1");
    refused((struct tt_cell_spec[]){cell(0, TT_CELL_GRAPH_MAX_CELLS, NOTHING), fine}, 2,
            "1048577 cells in one request; at most 1048576");
    refused((struct tt_cell_spec[]){cell(0, INT32_MAX, NOTHING), cell(0, INT32_MAX, NOTHING)}, 2,
            "4294967294 cells");
    tt_cell_graph_free(made((struct tt_cell_spec[]){cell(0, TT_CELL_GRAPH_MAX_CELLS, NOTHING)}, 1));
}

/* ---- random graphs ---- */

struct naive {
    struct tt_cell_spec specs[MAX_SPECS];
    int32_t sources[MAX_SPECS][MAX_SOURCES];
    int32_t count;
    int32_t submitted[MAX_SPECS], done[MAX_SPECS];
    bool ended[MAX_SPECS];
    bool released[MAX_SPECS]; /* by subgraph */
    uint64_t seed;
    struct tt_cell_graph *graph;
};

#define DEMAND(naive, holds)                                                                       \
    do {                                                                                           \
        if (!(holds))                                                                              \
            fail_msg("seed %" PRIu64 ": %s", (naive)->seed, #holds);                               \
    } while (0)

static void draw(struct naive *self, struct tt_prng *prng) {
    self->count = 1 + (int32_t)tt_prng_below(prng, MAX_SPECS);
    uint64_t types = 1 + tt_prng_below(prng, STEPS);
    uint64_t reach = 1 + tt_prng_below(prng, MAX_SPECS); /* how far back a cell reads */
    for (int32_t i = 0; i < self->count; i++) {
        int32_t wish = (int32_t)tt_prng_below(prng, MAX_SOURCES + 1);
        int32_t count = i > 0 ? wish : 0;
        for (int32_t k = 0; k < count; k++) {
            uint64_t span = reach < (uint64_t)i ? reach : (uint64_t)i;
            self->sources[i][k] = i - 1 - (int32_t)tt_prng_below(prng, span); /* perhaps twice */
        }
        int32_t repeat = tt_prng_below(prng, 4) ? 1 : 1 + (int32_t)tt_prng_below(prng, 5);
        self->specs[i] = cell((int32_t)tt_prng_below(prng, types), repeat, count, self->sources[i]);
        self->specs[i].open_ended = repeat > 1 && tt_prng_below(prng, 2);
    }
}

/* Subgraphs are of one type, connected, and none waits for itself. */
static void check_cut(const struct naive *self) {
    const struct tt_cell_graph *graph = self->graph;
    bool reaches[MAX_SPECS][MAX_SPECS] = {{false}}; /* between subgraphs */
    int32_t reached[MAX_SPECS];
    for (int32_t i = 0; i < self->count; i++)
        reached[i] = i;
    for (int32_t i = 0; i < self->count; i++) {
        int32_t own = graph->subgraph_of[i];
        DEMAND(self, graph->subgraphs[own].first_step == self->specs[i].first_step);
        for (int32_t k = 0; k < self->specs[i].source_count; k++) {
            int32_t source = self->specs[i].sources[k], other = graph->subgraph_of[source];
            if (other != own) {
                reaches[other][own] = true;
                continue;
            }
            int32_t from = reached[i], to = reached[source];
            for (int32_t j = 0; j < self->count; j++)
                reached[j] = reached[j] == from ? to : reached[j];
        }
    }
    for (int32_t i = 0; i < self->count; i++)
        for (int32_t j = 0; j < i; j++)
            DEMAND(self,
                   (reached[i] == reached[j]) == (graph->subgraph_of[i] == graph->subgraph_of[j]));
    for (int32_t k = 0; k < graph->subgraph_count; k++)
        for (int32_t i = 0; i < graph->subgraph_count; i++)
            for (int32_t j = 0; reaches[i][k] && j < graph->subgraph_count; j++)
                reaches[i][j] |= reaches[k][j];
    for (int32_t i = 0; i < graph->subgraph_count; i++)
        DEMAND(self, !reaches[i][i]);
}

/* A cell is submitted: all that it reads was submitted, or, in another subgraph, is done. */
static int32_t goes(struct naive *self, struct tt_cell_subgraph *subgraph, int32_t number) {
    int32_t spec = subgraph->is_chain ? subgraph->spec : number;
    DEMAND(self, self->submitted[spec] == (subgraph->is_chain ? number : 0));
    DEMAND(self, self->submitted[spec] < self->specs[spec].repeat && !self->ended[spec]);
    for (int32_t k = 0; k < self->specs[spec].source_count; k++) {
        int32_t source = self->specs[spec].sources[k];
        bool within = self->graph->subgraph_of[source] == self->graph->subgraph_of[spec];
        int32_t has = within ? self->submitted[source] : self->done[source];
        DEMAND(self, has == self->specs[source].repeat || (!within && self->ended[source]));
    }
    self->submitted[spec]++;
    return spec;
}

static void note_released(void *context, struct tt_cell_subgraph *subgraph) {
    struct naive *self = context;
    int64_t number = subgraph - self->graph->subgraphs;
    DEMAND(self, !self->released[number]);
    self->released[number] = true;
}

struct flight {
    struct tt_cell_subgraph *subgraph;
    int32_t spec;
};

static void returns(struct naive *self, struct tt_prng *prng, struct flight flight) {
    struct tt_cell_subgraph *subgraph = flight.subgraph;
    self->done[flight.spec]++;
    if (--subgraph->in_flight == 0)
        subgraph->executor = -1;
    bool ends = subgraph->open_ended && tt_prng_below(prng, 3) == 0;
    if (subgraph->over || (!ends && tt_cell_subgraph_done(subgraph) < subgraph->count))
        return;
    self->ended[flight.spec] = true;
    tt_cell_subgraph_over(self->graph, subgraph, note_released, self);
}

/* Submits up to a few ready cells of one subgraph as one task. */
static int32_t send(struct naive *self, struct tt_prng *prng, struct tt_cell_subgraph *subgraph,
                    struct flight *flights) {
    int32_t numbers[MAX_SPECS], count = 0, most = 1 + (int32_t)tt_prng_below(prng, 4);
    while (count < most && subgraph->ready > 0)
        numbers[count++] = tt_cell_subgraph_take(self->graph, subgraph);
    for (int32_t i = 0; i < count; i++) { /* no cell of a batch reads another one of it */
        flights[i] = (struct flight){subgraph, goes(self, subgraph, numbers[i])};
        for (int32_t k = 0; k < self->specs[flights[i].spec].source_count; k++)
            for (int32_t j = 0; j < i; j++)
                DEMAND(self, self->specs[flights[i].spec].sources[k] != flights[j].spec);
        subgraph->in_flight++;
        subgraph->executor = 0;
    }
    for (int32_t i = 0; i < count; i++)
        tt_cell_subgraph_submitted(self->graph, subgraph, numbers[i]);
    return count;
}

static void walk(struct naive *self, struct tt_prng *prng) {
    struct flight flights[MAX_SPECS * 5 + 8];
    struct tt_cell_graph *graph = self->graph;
    int32_t first = 0, last = 0;
    for (int32_t i = 0; i < graph->subgraph_count; i++)
        self->released[i] = graph->subgraphs[i].waits_for == 0;
    while (graph->over_count < graph->subgraph_count || first < last) {
        int32_t can[MAX_SPECS], count = 0;
        for (int32_t i = 0; i < graph->subgraph_count; i++)
            if (self->released[i] && graph->subgraphs[i].ready > 0)
                can[count++] = i;
        DEMAND(self, count > 0 || first < last); /* never stuck */
        if (count > 0 && (first == last || tt_prng_below(prng, 2)))
            last += send(self, prng, &graph->subgraphs[can[tt_prng_below(prng, (uint64_t)count)]],
                         &flights[last]);
        else
            returns(self, prng, flights[first++]);
        tt_cell_graph_check(graph);
    }
    for (int32_t i = 0; i < self->count; i++) {
        DEMAND(self, self->submitted[i] == self->done[i]);
        DEMAND(self, self->done[i] == self->specs[i].repeat || self->ended[i]);
    }
}

static void random_graphs_keep_what_a_naive_book_says(void **state) {
    (void)state;
    uint64_t seed = test_seed(1), cut = 0;
    for (int32_t i = 0; i < GRAPHS; i++) {
        struct naive naive = {.seed = seed + (uint64_t)i};
        struct tt_prng prng;
        tt_prng_init(&prng, naive.seed, 0);
        draw(&naive, &prng);
        naive.graph = made(naive.specs, naive.count);
        check_cut(&naive);
        walk(&naive, &prng);
        cut += (uint64_t)naive.graph->subgraph_count;
        tt_cell_graph_free(naive.graph);
    }
    assert_true(cut > GRAPHS); /* not all graphs were trivial */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_is_one_subgraph_and_its_cells_follow_submission),
        cmocka_unit_test(a_cell_taken_makes_none_ready_before_the_task_is_submitted),
        cmocka_unit_test(a_decoder_waits_for_the_encoders_end),
        cmocka_unit_test(a_tree_is_its_leaves_and_one_subgraph_of_inner_nodes),
        cmocka_unit_test(what_would_wait_for_itself_is_cut),
        cmocka_unit_test(repeated_cells_are_a_subgraph_alone),
        cmocka_unit_test(a_row_of_one_has_no_open_end),
        cmocka_unit_test(bad_cells_are_refused_by_number),
        cmocka_unit_test(random_graphs_keep_what_a_naive_book_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
