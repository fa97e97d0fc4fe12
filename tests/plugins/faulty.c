/* A plug-in that does wrong whatever `parameter` says, for tests/unit/model/test_unfold_plugin.c
 * and tests/integration/test_endless_batches.py. Its types: 0 reads one other and an element, 1
 * reads two others. */
#include <tutti/unfold.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef FAULTY_VERSION
enum { VERSION = FAULTY_VERSION };
#else
enum { VERSION = TUTTI_UNFOLD_VERSION };
#endif

static int open_model(const struct tutti_unfold_model *model, const char *parameter,
                      void **out_state, char *why, size_t capacity) {
    (void)model;
    if (strcmp(parameter, "refuse model") == 0) {
        snprintf(why, capacity, "the parameter is refuse");
        return 1;
    }
    if (strcmp(parameter, "refuse model silently") == 0)
        return 1;
    *out_state = strdup(parameter);
    return *out_state == NULL;
}

static void close_model(void *state) { free(state); }

static void sleep_ms(long ms) {
    struct timespec left = {.tv_nsec = ms * 1000000};
    while (ms > 0 && nanosleep(&left, &left) != 0)
        ;
}

/* Does not return from a request that begins with this token, until the file exists. */
static void hang(const struct tutti_unfold_request *request, const char *file) {
    enum { TOKEN = 666 };
    const int64_t *tokens = request->inputs[0].elements;
    while (tokens[0] == TOKEN && access(file, F_OK) != 0)
        sleep_ms(1);
}

static int32_t add(const struct tutti_unfold_sink *sink, struct tutti_unfold_cells cells) {
    return sink->add(sink->context, &cells);
}

/* The cells of one wrong kind; the last of them is refused. */
static int32_t add_wrong(const char *what, const struct tutti_unfold_sink *sink, int32_t length) {
    struct tutti_unfold_cells good = {.type = 0, .count = length, .stride = 1};
    struct tutti_unfold_cells wrong = good;
    int32_t self = 1, wild = -7, pair[2] = {0, 0};
    if (strcmp(what, "type") == 0)
        wrong.type = 2;
    else if (strcmp(what, "count") == 0)
        wrong.count = 0;
    else if (strcmp(what, "far") == 0)
        wrong.first_element = 1;
    else if (strcmp(what, "overflow") == 0)
        wrong.first_element = INT64_MAX;
    else if (strcmp(what, "stride") == 0)
        wrong.stride = 2;
    else if (strcmp(what, "chain of pairs") == 0)
        wrong = (struct tutti_unfold_cells){.type = 1, .count = 2};
    else if (strcmp(what, "arity") == 0)
        wrong =
            (struct tutti_unfold_cells){.type = 1, .count = 1, .source_count = 1, .sources = pair};
    else if (strcmp(what, "cycle") == 0)
        wrong.source_count = 1, wrong.sources = &self;
    else if (strcmp(what, "wild") == 0)
        wrong.source_count = 1, wrong.sources = &wild;
    else if (strcmp(what, "states") == 0)
        wrong = (struct tutti_unfold_cells){
            .type = 0, .count = 1, .source_count = 1, .sources = &(int32_t){1}};
    add(sink, good);
    if (strcmp(what, "states") == 0)
        add(sink,
            (struct tutti_unfold_cells){.type = 1, .count = 1, .source_count = 2, .sources = pair});
    return add(sink, wrong);
}

/* Adds cells until the sink rejects one, or without regard to that. */
static int32_t add_many(const struct tutti_unfold_sink *sink, bool deaf, long pause_ms) {
    int32_t got = 0;
    for (int i = 0; i < 1000 && (deaf || got >= 0); i++) {
        got = add(sink, (struct tutti_unfold_cells){.type = 0, .count = 1});
        sleep_ms(pause_ms);
    }
    return deaf ? 0 : got;
}

static int32_t add_pair(const struct tutti_unfold_sink *sink, int32_t length, bool answers) {
    int32_t ends[2];
    ends[0] = add(sink, (struct tutti_unfold_cells){.type = 0, .count = length, .stride = 1});
    ends[1] = add(sink, (struct tutti_unfold_cells){
                            .type = 0, .count = 1, .first_element = length - 1, .stride = -1});
    add(sink,
        (struct tutti_unfold_cells){.type = 1, .count = 1, .source_count = 2, .sources = ends});
    if (answers)
        add(sink,
            (struct tutti_unfold_cells){.type = 0, .count = 1, .source_count = 1, .sources = ends});
    return 0;
}

static uint64_t draw(uint64_t *seed, uint64_t below) {
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return (*seed >> 16) % below;
}

/* Cells that follow from the request's tokens: mostly right, and ending with a pair. */
static int32_t add_random(const struct tutti_unfold_request *request,
                          const struct tutti_unfold_sink *sink) {
    const int64_t *tokens = request->inputs[0].elements;
    int32_t length = (int32_t)request->length, made = 0, got = 0;
    uint64_t seed = 88172645463325252u;
    for (int32_t i = 0; i < length; i++)
        seed = seed * 101 + (uint64_t)tokens[i] + 1;
    int32_t wanted = 2 + (int32_t)draw(&seed, 12);
    while (got >= 0 && made < wanted) {
        int32_t sources[2];
        struct tutti_unfold_cells cells = {.sources = sources, .count = 1};
        cells.type = made + 1 == wanted || draw(&seed, 3) == 0;
        if (cells.type == 0) {
            cells.count = 1 + (int32_t)draw(&seed, (uint64_t)length);
            cells.stride = draw(&seed, 2) ? 1 : -1;
            cells.first_element = cells.stride == 1 ? 0 : cells.count - 1;
        }
        if (made > 0 && draw(&seed, 4) > 0)
            cells.source_count = cells.type == 0 ? 1 : 2;
        for (int32_t k = 0; k < cells.source_count; k++)
            sources[k] = (int32_t)draw(&seed, (uint64_t)made);
        switch (draw(&seed, 100)) {
        case 0: sources[0] = made; break;
        case 1: cells.count += length; break;
        case 2: cells.source_count = 3 - cells.source_count; break;
        case 3: cells.type = 2; break;
        default: break;
        }
        got = sink->add(sink->context, &cells);
        made++;
    }
    return got < 0 ? got : 0;
}

static int32_t unfold(void *state, const struct tutti_unfold_request *request,
                      const struct tutti_unfold_sink *sink) {
    const char *what = state;
    int32_t length = (int32_t)request->length;
    struct tutti_unfold_cells chain = {.type = 0, .count = length, .stride = 1};
    if (strcmp(what, "chain last") == 0 || strcmp(what, "pair last") == 0)
        return add_pair(sink, length, *what == 'c');
    if (strcmp(what, "fail") == 0)
        return 77;
    if (strcmp(what, "refuse") == 0)
        return sink->refuse(sink->context, "there is no such word");
    if (strcmp(what, "random") == 0)
        return add_random(request, sink);
    if (strcmp(what, "nothing") == 0)
        return 0;
    if (strcmp(what, "many") == 0 || strcmp(what, "deaf") == 0)
        return add_many(sink, *what == 'd', 0);
    if (strcmp(what, "slow") == 0)
        return add_many(sink, false, 1);
    if (strcmp(what, "late") == 0) /* and then done */
        sleep_ms(30);
    else if (strncmp(what, "hang ", 5) == 0)
        hang(request, what + 5);
    else if (strcmp(what, "open end") == 0)
        chain.open_ended = 1;
    else
        return add_wrong(what, sink, length) < 0 ? -1 : 0;
    add(sink, chain);
    return 0;
}

#ifdef FAULTY_SYMBOL /* not visible outside of the library */
__attribute__((visibility("hidden")))
#endif
const struct tutti_unfold_plugin *
tutti_unfold_plugin(void) {
    static struct tutti_unfold_plugin plugin = {.version = VERSION,
                                                .name = "faulty",
                                                .open = open_model,
                                                .close = close_model,
                                                .unfold = unfold};
    const struct tutti_unfold_plugin *given = &plugin;
#ifdef FAULTY_TABLE
    plugin.unfold = NULL;
#endif
#ifdef FAULTY_NULL
    given = NULL;
#endif
    return given;
}
