/* Runs any library: `driver MODE SIZE...` reads input_0.bin ... and writes output_0.bin ...

   MODEL is the library's name, HEADER its header. Letters of MODE: w, the workspace is ours; p, tasks
   run on threads of ours; t, two threads call at once; m, weights are mapped. */
#include HEADER
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define NAME(what) JOIN(MODEL, what)
#define MOST 32

static const int64_t widths[] = {0, 1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8,
                                 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};  // of dtypes that are only stored

/* ---- tasks on threads */
typedef struct {
  fusewire_task task;
  void *arguments;
  int64_t tasks, next;
  pthread_mutex_t lock;
} job;

static void *work(void *given) {
  job *own = given;
  for (;;) {
    pthread_mutex_lock(&own->lock);
    int64_t number = own->next++;
    pthread_mutex_unlock(&own->lock);
    if (number >= own->tasks) return NULL;
    own->task(own->arguments, number);
  }
}

static void on_threads(void *context, fusewire_task task, void *arguments, int64_t tasks) {
  job own = {task, arguments, tasks, 0, PTHREAD_MUTEX_INITIALIZER};
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) pthread_create(&threads[i], NULL, work, &own);
  for (int i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  ++*(int64_t *)context;
}

/* ---- files */
static int64_t bytes_of(const fusewire_array *array) {
  int64_t bytes = widths[array->dtype];
  for (int i = 0; i < array->rank; i++) bytes *= array->shape[i];
  return bytes;
}

static int transfer(const char *what, int number, const fusewire_array *array, const char *how) {
  char name[64];
  size_t bytes = (size_t)bytes_of(array);
  snprintf(name, sizeof name, "%s_%d.bin", what, number);
  FILE *file = fopen(name, how);
  if (file == NULL) return 1;
  size_t done = *how == 'r' ? fread(array->data, 1, bytes, file) : fwrite(array->data, 1, bytes, file);
  fclose(file);
  return done != bytes;
}

/* ---- a call */
static void describe(const fusewire_information *about, const int64_t *sizes, const int64_t *computed,
                     int64_t *shape, fusewire_array *array) {
  array->rank = about->rank;
  array->dtype = about->dtype;
  array->shape = shape;
  for (int i = 0; i < about->rank; i++) {
    int64_t size = about->shape[i];
    shape[i] = computed != NULL ? computed[i] : size < 0 ? sizes[-1 - size] : size;
  }
  array->data = aligned_alloc(64, (size_t)(bytes_of(array) + 127) / 64 * 64);
}

/* A thread that makes the same call many times, with outputs and memory of its own. */
static void *calls_often(void *given) {
  const fusewire_call *first = given;
  fusewire_call call = *first;
  fusewire_array outputs[MOST];
  call.outputs = outputs;
  call.workspace = NULL;
  for (int i = 0; i < call.output_count; i++) {
    outputs[i] = first->outputs[i];
    outputs[i].data = aligned_alloc(64, (size_t)(bytes_of(&outputs[i]) + 127) / 64 * 64);
  }
  for (int turn = 0; turn < 20; turn++) {
    if (NAME(_run)(&call) != FUSEWIRE_OK) return given;
    for (int i = 0; i < call.output_count; i++)
      if (memcmp(outputs[i].data, first->outputs[i].data, (size_t)bytes_of(&outputs[i])))
        return given;
  }
  return NULL;
}

static int two_at_once(const fusewire_call *call) {
  pthread_t threads[2];
  void *failed[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, calls_often, (void *)call);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], &failed[i]);
  return failed[0] != NULL || failed[1] != NULL;
}

int main(int argc, char **argv) {
  static fusewire_array inputs[MOST], outputs[MOST];
  static int64_t shapes[2 * MOST][8], computed[8 * MOST];
  int64_t sizes[8] = {0}, count = argc - 2, jobs = 0;
  const char *mode = argv[1];
  for (int i = 0; i < count; i++) sizes[i] = atoll(argv[i + 2]);
  int code = NAME(_shapes)(sizes, count, computed);
  if (code != FUSEWIRE_OK) return fprintf(stderr, "shapes: %s\n", NAME(_error)(code)), 2;
  int input_count = 0, output_count = 0;
  while (NAME(_inputs)[input_count].name != NULL) input_count++;
  while (NAME(_outputs)[output_count].name != NULL) output_count++;
  for (int i = 0; i < input_count; i++) {
    describe(&NAME(_inputs)[i], sizes, NULL, shapes[i], &inputs[i]);
    if (transfer("input", i, &inputs[i], "rb")) return fprintf(stderr, "no input %d\n", i), 2;
  }
  for (int i = 0, at = 0; i < output_count; at += NAME(_outputs)[i++].rank)
    describe(&NAME(_outputs)[i], sizes, computed + at, shapes[MOST + i], &outputs[i]);

  fusewire_call call;
  memset(&call, 0, sizeof call);
  call.abi = FUSEWIRE_ABI;
  call.inputs = inputs;
  call.input_count = input_count;
  call.outputs = outputs;
  call.output_count = output_count;
  call.sizes = sizes;
  call.size_count = count;
  if (strchr(mode, 'w') != NULL) {
    call.workspace_bytes = NAME(_workspace)(sizes, count);
    call.workspace = aligned_alloc(64, (size_t)call.workspace_bytes + 64);
  }
  if (strchr(mode, 'p') != NULL) {
    call.parallel_for = on_threads;
    call.context = &jobs;
  }
#ifdef BESIDE
  if (strchr(mode, 'm') != NULL) {
    code = NAME(_map_weights)(BESIDE, &call.weights, &call.weights_bytes);
    if (code != FUSEWIRE_OK) return fprintf(stderr, "weights: %s\n", NAME(_error)(code)), 2;
  }
#endif
  code = NAME(_run)(&call);
  if (code != FUSEWIRE_OK) return fprintf(stderr, "run: %s\n", NAME(_error)(code)), 1;
  for (int i = 0; i < output_count; i++)
    if (transfer("output", i, &outputs[i], "wb")) return 2;
  if (strchr(mode, 't') != NULL && two_at_once(&call))
    return fprintf(stderr, "calls at once give something else\n"), 1;
  printf("%lld\n", (long long)jobs);
  return 0;
}
