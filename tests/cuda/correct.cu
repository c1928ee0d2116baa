// Correct kernels, for the tests of the emulator. Rows lie in blocks of a multiple of 32 threads.

#define FULL 0xffffffffu

__device__ __forceinline__ float warp_max(float x) {
    for (int step = 16; step > 0; step >>= 1) x = fmaxf(x, __shfl_xor_sync(FULL, x, step));
    return x;
}

__device__ __forceinline__ float warp_sum(float x) {
    for (int step = 16; step > 0; step >>= 1) x += __shfl_down_sync(FULL, x, step);
    return __shfl_sync(FULL, x, 0);
}

extern "C" __global__ void __launch_bounds__(256)
softmax(const float* __restrict__ x, float* __restrict__ y, int columns) {
    __shared__ float partial[8];
    const long long row = (long long)blockIdx.x * columns;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    float most = -3.4e38f;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) most = fmaxf(most, x[row + j]);
    most = warp_max(most);
    if (lane == 0) partial[warp] = most;
    __syncthreads();
    for (int w = 0; w < warps; ++w) most = fmaxf(most, partial[w]);
    __syncthreads();  // `partial` is written again
    float sum = 0.0f;
    for (int j = threadIdx.x; j < columns; j += blockDim.x) sum += expf(x[row + j] - most);
    sum = warp_sum(sum);
    if (lane == 0) partial[warp] = sum;
    __syncthreads();
    sum = 0.0f;
    for (int w = 0; w < warps; ++w) sum += partial[w];
    for (int j = threadIdx.x; j < columns; j += blockDim.x)
        y[row + j] = expf(x[row + j] - most) / sum;
}

extern "C" __global__ void block_sum(const float* x, double* sum, long long size) {
    __shared__ double tree[128];
    double mine = 0.0;
    for (long long i = blockIdx.x * 128 + threadIdx.x; i < size; i += gridDim.x * 128) mine += x[i];
    tree[threadIdx.x] = mine;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half) tree[threadIdx.x] += tree[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) atomicAdd(sum, tree[0]);
}

extern "C" __global__ void histogram(const unsigned char* x, unsigned* counts, int size, int bins) {
    extern __shared__ unsigned mine[];
    for (int b = threadIdx.x; b < bins; b += blockDim.x) mine[b] = 0u;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x)
        atomicAdd(&mine[x[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < bins; b += blockDim.x) atomicAdd(&counts[b], mine[b]);
}

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float left[16][16];
    __shared__ float right[16][17];
    const int x = threadIdx.x, y = threadIdx.y;
    const int row = blockIdx.y * 16 + y, column = blockIdx.x * 16 + x;
    float sum = 0.0f;
    for (int first = 0; first < k; first += 16) {
        left[y][x] = row < m && first + x < k ? a[row * k + first + x] : 0.0f;
        right[y][x] = first + y < k && column < n ? b[(first + y) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum = fmaf(left[y][i], right[i][x], sum);
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void copy4(const float4* __restrict__ from, float4* __restrict__ to, int n4) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n4) to[i] = from[i];
}

extern "C" __global__ void warp_scan(const int* x, int* sums) {
    const int lane = threadIdx.x;
    int sum = x[blockIdx.x * 32 + lane];
    for (int step = 1; step < 32; step *= 2) {
        const int left = __shfl_up_sync(FULL, sum, step);
        if (lane >= step) sum += left;
    }
    sums[blockIdx.x * 32 + lane] = sum;
}

// Each warp turns around 32 values through shared memory: its lanes wait for each other alone.
extern "C" __global__ void warp_reverse(const float* x, float* y) {
    __shared__ float values[4][32];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    for (int turn = 0; turn < 3; ++turn) {
        values[warp][lane] = x[threadIdx.x] + turn;
        __syncwarp();
        y[turn * 128 + threadIdx.x] = values[warp][31 - lane];
        __syncwarp();
    }
}

// The largest of floats, by their bits: what there is no atomic operation for.
extern "C" __global__ void largest(const float* x, float* most, int size) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    unsigned* place = (unsigned*)most;
    unsigned old = *(volatile unsigned*)place, assumed;
    do {
        assumed = old;
        old = atomicCAS(place, assumed, __float_as_uint(fmaxf(x[i], __uint_as_float(assumed))));
    } while (old != assumed);
}
