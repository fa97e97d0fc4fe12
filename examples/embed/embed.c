/* Serves a model within a program: submits requests with deadlines, waits for their answers, and
 * prints the statistics.
 *
 *     cc -o embed embed.c -ltutti
 *     ./embed REPOSITORY MODEL INPUT COLUMNS [REQUESTS]
 *
 * MODEL has the input INPUT, FP32 of shape [rows, COLUMNS]. Exit code 0: every request was answered
 * or refused with a reason. */
#include <tutti/tutti.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

struct waiting {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    long left, answered;
    float first; /* of the last answer's first output */
};

/* On a thread of the library. What `answer` points to is gone afterwards. */
static void on_done(void *context, const struct tutti_answer *answer) {
    struct waiting *waiting = context;
    pthread_mutex_lock(&waiting->lock);
    waiting->left--;
    if (answer->code == TUTTI_OK) {
        waiting->answered++;
        waiting->first = ((const float *)answer->outputs[0].bytes)[0];
    } else {
        fprintf(stderr, "request %llu: %s\n", (unsigned long long)answer->id, answer->why);
    }
    pthread_cond_signal(&waiting->changed);
    pthread_mutex_unlock(&waiting->lock);
}

static int run(struct tutti_server *server, char **words, long requests) {
    struct waiting waiting = {.lock = PTHREAD_MUTEX_INITIALIZER,
                              .changed = PTHREAD_COND_INITIALIZER};
    long columns = strtol(words[3], NULL, 10);
    float *row = calloc((size_t)columns, sizeof(*row));
    if (!row)
        return 1;
    for (long i = 0; i < columns; i++)
        row[i] = 0.5f;
    const int64_t shape[2] = {1, columns};
    const struct tutti_tensor input = {.name = words[2],
                                       .datatype = "FP32",
                                       .shape = shape,
                                       .rank = 2,
                                       .bytes = row,
                                       .size_bytes = (size_t)columns * sizeof(*row)};
    const struct tutti_request request = {
        .model = words[1], .inputs = &input, .input_count = 1, .timeout_us = 10000000};
    for (long i = 0; i < requests; i++) {
        struct tutti_error why;
        pthread_mutex_lock(&waiting.lock);
        waiting.left++; /* before the answer can come */
        pthread_mutex_unlock(&waiting.lock);
        if (tutti_submit(server, &request, on_done, &waiting, NULL, &why) != TUTTI_OK) {
            fprintf(stderr, "not submitted: %s\n", why.text);
            free(row);
            return 1; /* tutti_close() waits for the others, while `waiting` is still there */
        }
    }
    free(row); /* inputs were copied */
    pthread_mutex_lock(&waiting.lock);
    while (waiting.left > 0)
        pthread_cond_wait(&waiting.changed, &waiting.lock);
    pthread_mutex_unlock(&waiting.lock);
    printf("%ld of %ld answered, the last begins with %g\n", waiting.answered, requests,
           (double)waiting.first);
    return 0;
}

int main(int count, char **words) {
    static const char *const options[] = {"executors=2"};
    struct tutti_server *server;
    struct tutti_error why;
    char *statistics;
    if (count < 5) {
        fprintf(stderr, "usage: embed REPOSITORY MODEL INPUT COLUMNS [REQUESTS]\n");
        return 2;
    }
    if (tutti_open(words[1], options, 1, &server, &why) != TUTTI_OK) {
        fprintf(stderr, "cannot open %s: %s\n", words[1], why.text);
        return 1;
    }
    int code = run(server, words + 1, count > 5 ? strtol(words[5], NULL, 10) : 100);
    if (tutti_statistics(server, &statistics, &why) == TUTTI_OK) {
        puts(statistics);
        tutti_free(statistics);
    }
    tutti_close(server);
    return code;
}
