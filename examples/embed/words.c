/* Prints the words of a model that emits them, each when it exists.
 *
 *     cc -o words words.c -ltutti
 *     ./words REPOSITORY MODEL INPUT TOKEN...
 *
 * MODEL has the input INPUT, INT64 of shape [rows, tokens], and emits INT64. Exit code 0: it was
 * answered. */
#include <tutti/tutti.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int is_over;
    enum tutti_code code;
    int64_t words; /* of `done`: all of them */
};

/* On a thread of the library, before on_done(), so without the lock. */
static void on_word(void *context, const struct tutti_answer *word) {
    (void)context;
    printf("%lld\n", (long long)((const int64_t *)word->outputs[0].bytes)[0]);
    fflush(stdout);
}

static void on_done(void *context, const struct tutti_answer *answer) {
    struct waiting *waiting = context;
    if (answer->code != TUTTI_OK)
        fprintf(stderr, "%s\n", answer->why);
    pthread_mutex_lock(&waiting->lock);
    waiting->code = answer->code;
    if (answer->code == TUTTI_OK)
        waiting->words = answer->outputs[0].shape[1];
    waiting->is_over = 1;
    pthread_cond_signal(&waiting->changed);
    pthread_mutex_unlock(&waiting->lock);
}

/* TUTTI_OK: `done` was called, with `waiting->code`. */
static enum tutti_code run(struct tutti_server *server, char **words, int count,
                           struct waiting *waiting) {
    struct tutti_error why;
    int64_t *tokens = calloc((size_t)count, sizeof(*tokens));
    if (!tokens)
        return TUTTI_NO_MEMORY;
    for (int i = 0; i < count; i++)
        tokens[i] = strtoll(words[4 + i], NULL, 10);
    const int64_t shape[2] = {1, count};
    const struct tutti_tensor input = {.name = words[3],
                                       .datatype = "INT64",
                                       .shape = shape,
                                       .rank = 2,
                                       .bytes = tokens,
                                       .size_bytes = (size_t)count * sizeof(*tokens)};
    const struct tutti_request request = {.model = words[2], .inputs = &input, .input_count = 1};
    enum tutti_code code = tutti_stream(server, &request, on_word, on_done, waiting, NULL, &why);
    free(tokens); /* inputs were copied */
    if (code != TUTTI_OK) {
        fprintf(stderr, "not submitted: %s\n", why.text);
        return code;
    }
    pthread_mutex_lock(&waiting->lock);
    while (!waiting->is_over)
        pthread_cond_wait(&waiting->changed, &waiting->lock);
    pthread_mutex_unlock(&waiting->lock);
    return TUTTI_OK;
}

int main(int count, char **words) {
    struct waiting waiting = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    struct tutti_server *server;
    struct tutti_error why;
    if (count < 5) {
        fprintf(stderr, "usage: words REPOSITORY MODEL INPUT TOKEN...\n");
        return 2;
    }
    if (tutti_open(words[1], NULL, 0, &server, &why) != TUTTI_OK) {
        fprintf(stderr, "cannot open %s: %s\n", words[1], why.text);
        return 1;
    }
    enum tutti_code code = run(server, words, count - 4, &waiting);
    tutti_close(server);
    if (code != TUTTI_OK || waiting.code != TUTTI_OK)
        return 1;
    printf("%lld words\n", (long long)waiting.words);
    return 0;
}
