#include "core/cell_graph.h"

#include <stdlib.h>
#include <string.h>

/* Used while the graph is made. */
struct draft {
    int32_t *depth; /* per spec: maximum number of type changes on a path that leads to it */
    int32_t *root;  /* union-find: specs of one subgraph share a root, the first of them */
};

static bool same_type(const struct tt_cell_spec *a, const struct tt_cell_spec *b) {
    return a->first_step == b->first_step && a->last_step == b->last_step;
}

static enum tt_err check_spec(const struct tt_cell_spec *specs, int32_t at, int32_t step_count,
                              struct tt_error *why) {
    const struct tt_cell_spec *spec = &specs[at];
    if (spec->first_step < 0 || spec->last_step < spec->first_step || spec->last_step >= step_count)
        return tt_fail(TT_ERR_INVALID, why,
                       "cell %d runs the steps %d to %d; the model's are 0 to %d", at,
                       spec->first_step, spec->last_step, step_count - 1);
    if (spec->repeat < 1)
        return tt_fail(TT_ERR_INVALID, why, "cell %d is repeated %d times; the minimum is 1", at,
                       spec->repeat);
    for (int32_t i = 0; i < spec->source_count; i++)
        if (spec->sources[i] < 0 || spec->sources[i] >= at)
            return tt_fail(TT_ERR_INVALID, why,
                           "cell %d reads cell %d; only those before it (0 to %d) can be read", at,
                           spec->sources[i], at - 1);
    return TT_OK;
}

static enum tt_err check_specs(const struct tt_cell_spec *specs, int32_t spec_count,
                               int32_t step_count, struct tt_error *why) {
    if (spec_count < 1)
        return tt_fail(TT_ERR_INVALID, why, "a request has no cell; it needs at least one");
    int64_t cells = 0;
    for (int32_t i = 0; i < spec_count; i++) {
        enum tt_err err = check_spec(specs, i, step_count, why);
        if (err)
            return err;
        cells += specs[i].repeat;
    }
    if (cells > TT_CELL_GRAPH_MAX_CELLS)
        return tt_fail(TT_ERR_INVALID, why, "%lld cells in one request; at most %d are allowed",
                       (long long)cells, TT_CELL_GRAPH_MAX_CELLS);
    return TT_OK;
}

static int32_t root_of(int32_t *root, int32_t spec) {
    while (root[spec] != spec) {
        root[spec] = root[root[spec]];
        spec = root[spec];
    }
    return spec;
}

/* Connected specs of one type and depth form one subgraph; a repeated spec is one by itself. The
 * depth grows along every edge between two subgraphs, so no subgraph waits for itself. */
static void cut(const struct tt_cell_spec *specs, int32_t spec_count, struct draft *draft) {
    for (int32_t i = 0; i < spec_count; i++) {
        draft->root[i] = i;
        draft->depth[i] = 0;
        for (int32_t k = 0; k < specs[i].source_count; k++) {
            int32_t source = specs[i].sources[k];
            bool apart = !same_type(&specs[i], &specs[source]) || specs[i].repeat > 1 ||
                         specs[source].repeat > 1;
            int32_t depth = draft->depth[source] + apart;
            draft->depth[i] = depth > draft->depth[i] ? depth : draft->depth[i];
        }
        for (int32_t k = 0; k < specs[i].source_count; k++) {
            int32_t source = specs[i].sources[k];
            if (!same_type(&specs[i], &specs[source]) || draft->depth[i] != draft->depth[source])
                continue;
            int32_t a = root_of(draft->root, i), b = root_of(draft->root, source);
            draft->root[a > b ? a : b] = a > b ? b : a;
        }
    }
}

/* Sizes of the graph's arrays. */
struct extent {
    int32_t subgraphs, followers, readers;
    bool has_cells; /* some subgraph is no chain */
};

static struct extent measure(const struct tt_cell_spec *specs, int32_t spec_count,
                             const struct draft *draft) {
    struct extent extent = {0};
    for (int32_t i = 0; i < spec_count; i++) {
        extent.subgraphs += draft->root[i] == i;
        extent.has_cells |= draft->root[i] != i;
        for (int32_t k = 0; k < specs[i].source_count; k++) {
            bool within = draft->root[specs[i].sources[k]] == draft->root[i];
            extent.readers += within;
            extent.followers += !within;
        }
    }
    return extent;
}

/* Allocates the graph and its arrays in one piece. Graph and cells are zeroed; place_specs() and
 * connect() write all of the rest. */
static struct tt_cell_graph *graph_new(int32_t spec_count, const struct extent *extent) {
    size_t head = tt_line_up(sizeof(struct tt_cell_graph));
    size_t subgraphs = (size_t)extent->subgraphs * sizeof(struct tt_cell_subgraph);
    size_t cells = extent->has_cells ? (size_t)spec_count * sizeof(struct tt_cell) : 0;
    size_t numbers = (size_t)spec_count + (size_t)extent->followers + (size_t)extent->readers;
    struct tt_cell_graph *self = tt_line_room(head + subgraphs + cells + numbers * sizeof(int32_t));
    if (!self)
        return NULL;
    *self = (struct tt_cell_graph){0};
    self->subgraph_count = extent->subgraphs;
    self->spec_count = spec_count;
    self->subgraphs = (struct tt_cell_subgraph *)((char *)self + head);
    char *after = (char *)self->subgraphs + subgraphs;
    self->cells = extent->has_cells ? memset(after, 0, cells) : NULL;
    self->subgraph_of = (int32_t *)(after + cells);
    self->followers = self->subgraph_of + spec_count;
    self->readers = self->followers + extent->followers;
    return self;
}

static void push_ready(struct tt_cell_graph *self, struct tt_cell_subgraph *subgraph,
                       int32_t spec) {
    self->cells[spec].next_ready = -1;
    if (subgraph->last_ready >= 0)
        self->cells[subgraph->last_ready].next_ready = spec;
    else
        subgraph->first_ready = spec;
    subgraph->last_ready = spec;
    subgraph->ready++;
}

/* Makes the subgraphs, numbered by their first spec. */
static void place_specs(struct tt_cell_graph *self, const struct tt_cell_spec *specs,
                        const struct draft *draft) {
    int32_t next = 0;
    for (int32_t i = 0; i < self->spec_count; i++) {
        bool first = draft->root[i] == i;
        int32_t number = first ? next++ : self->subgraph_of[draft->root[i]];
        struct tt_cell_subgraph *subgraph = &self->subgraphs[number];
        self->subgraph_of[i] = number;
        self->cell_count += specs[i].repeat;
        if (first)
            *subgraph =
                (struct tt_cell_subgraph){.first_step = specs[i].first_step,
                                          .last_step = specs[i].last_step,
                                          .open_ended = specs[i].open_ended && specs[i].repeat > 1,
                                          .executor = -1,
                                          .spec = i,
                                          .first_ready = -1,
                                          .last_ready = -1};
        subgraph->count += specs[i].repeat;
        subgraph->is_chain = first;
    }
}

/* Fills followers and readers. Pass 0 counts them and assigns their ranges; pass 1 writes them. */
static void connect(struct tt_cell_graph *self, const struct tt_cell_spec *specs) {
    for (int32_t pass = 0; pass < 2; pass++) {
        for (int32_t i = 0; i < self->spec_count; i++) {
            int32_t number = self->subgraph_of[i];
            for (int32_t k = 0; k < specs[i].source_count; k++) {
                int32_t source = specs[i].sources[k];
                struct tt_cell_subgraph *before = &self->subgraphs[self->subgraph_of[source]];
                bool within = self->subgraph_of[source] == number;
                int32_t *first =
                    within ? &self->cells[source].first_reader : &before->first_follower;
                int32_t *count =
                    within ? &self->cells[source].reader_count : &before->follower_count;
                int32_t *rows = within ? self->readers : self->followers;
                if (pass == 1)
                    rows[*first + *count] = within ? i : number;
                ++*count;
            }
        }
        int32_t readers = 0, followers = 0;
        for (int32_t i = 0; pass == 0 && self->cells && i < self->spec_count; i++) {
            self->cells[i].first_reader = readers;
            readers += self->cells[i].reader_count;
            self->cells[i].reader_count = 0;
        }
        for (int32_t i = 0; pass == 0 && i < self->subgraph_count; i++) {
            self->subgraphs[i].first_follower = followers;
            followers += self->subgraphs[i].follower_count;
            self->subgraphs[i].follower_count = 0;
        }
    }
}

/* Sets what each subgraph and cell waits for, and what is ready at the start. */
static void arm(struct tt_cell_graph *self, const struct tt_cell_spec *specs) {
    for (int32_t i = 0; i < self->spec_count; i++) {
        struct tt_cell_subgraph *subgraph = &self->subgraphs[self->subgraph_of[i]];
        int32_t within = 0;
        for (int32_t k = 0; k < specs[i].source_count; k++)
            within += self->subgraph_of[specs[i].sources[k]] == self->subgraph_of[i];
        subgraph->waits_for += specs[i].source_count - within;
        if (subgraph->is_chain) {
            subgraph->ready = 1;
            continue;
        }
        self->cells[i].waits = within;
        if (within == 0)
            push_ready(self, subgraph, i);
    }
}

enum tt_err tt_cell_graph_new(const struct tt_cell_spec *specs, int32_t spec_count,
                              int32_t step_count, struct tt_cell_graph **out_graph,
                              struct tt_error *why) {
    enum tt_err err = check_specs(specs, spec_count, step_count, why);
    if (err)
        return err;
    int32_t few[128]; /* enough for most requests */
    int32_t *numbers = few;
    if (2 * (size_t)spec_count > TT_COUNT(few))
        numbers = malloc(2 * (size_t)spec_count * sizeof(*numbers));
    struct tt_cell_graph *self = NULL;
    if (numbers) {
        struct draft draft = {.depth = numbers, .root = numbers + spec_count};
        cut(specs, spec_count, &draft);
        for (int32_t i = 0; i < spec_count; i++)
            draft.root[i] = root_of(draft.root, i);
        struct extent extent = measure(specs, spec_count, &draft);
        self = graph_new(spec_count, &extent);
        if (self) {
            place_specs(self, specs, &draft);
            connect(self, specs);
            arm(self, specs);
        }
    }
    if (numbers != few)
        free(numbers);
    if (!self)
        return tt_fail(TT_ERR_NO_MEMORY, why, "out of memory for a request of %d cells",
                       spec_count);
    *out_graph = self;
    return TT_OK;
}

void tt_cell_graph_free(struct tt_cell_graph *take_graph) { free(take_graph); }

int32_t tt_cell_subgraph_take_spec(struct tt_cell_graph *self, struct tt_cell_subgraph *subgraph) {
    int32_t spec = subgraph->first_ready;
    subgraph->first_ready = self->cells[spec].next_ready;
    if (subgraph->first_ready < 0)
        subgraph->last_ready = -1;
    return spec;
}

void tt_cell_subgraph_spec_submitted(struct tt_cell_graph *self, struct tt_cell_subgraph *subgraph,
                                     int32_t spec) {
    const struct tt_cell *done = &self->cells[spec];
    for (int32_t i = 0; i < done->reader_count; i++) {
        int32_t reader = self->readers[done->first_reader + i];
        if (--self->cells[reader].waits == 0)
            push_ready(self, subgraph, reader);
    }
}

void tt_cell_subgraph_over(struct tt_cell_graph *self, struct tt_cell_subgraph *subgraph,
                           void (*released)(void *context, struct tt_cell_subgraph *subgraph),
                           void *context) {
    tt_assert(!subgraph->over);
    subgraph->over = true;
    subgraph->ready = 0;
    self->over_count++;
    for (int32_t i = 0; i < subgraph->follower_count; i++) {
        int32_t number = self->followers[subgraph->first_follower + i];
        struct tt_cell_subgraph *follower = &self->subgraphs[number];
        tt_assert(follower->waits_for > 0);
        if (--follower->waits_for == 0)
            released(context, follower);
    }
}

static void check_subgraph(const struct tt_cell_graph *self,
                           const struct tt_cell_subgraph *subgraph) {
    tt_assert(subgraph->in_flight >= 0 && subgraph->in_flight <= subgraph->submitted);
    tt_assert(subgraph->submitted + subgraph->ready <= subgraph->count);
    tt_assert((subgraph->executor >= 0) == (subgraph->in_flight > 0));
    tt_assert(subgraph->waits_for == 0 || subgraph->submitted == 0);
    tt_assert(!subgraph->over || subgraph->ready == 0);
    tt_assert(!subgraph->over || subgraph->open_ended ||
              tt_cell_subgraph_done(subgraph) == subgraph->count);
    int32_t ready = 0;
    for (int32_t i = subgraph->first_ready; !subgraph->is_chain && i >= 0;
         i = self->cells[i].next_ready) {
        tt_assert(self->cells[i].waits == 0);
        ready++;
    }
    tt_assert(subgraph->is_chain || subgraph->over || ready == subgraph->ready);
}

void tt_cell_graph_check(const struct tt_cell_graph *self) {
    int32_t over = 0;
    for (int32_t i = 0; i < self->subgraph_count; i++) {
        over += self->subgraphs[i].over;
        check_subgraph(self, &self->subgraphs[i]);
    }
    tt_assert(over == self->over_count);
}
