"""Spellings of functions that create, reshape, join, index and scatter."""

from __future__ import annotations

CREATE = """
f tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False)
    = fw.tensor(data, dtype, device, requires_grad)
f scalar_tensor(s, *, dtype=None, device=None) = fw.tensor(s, dtype, device)
f as_tensor(data, dtype=None, device=None) = as_tensor_of(data, dtype, device) |> fw.asarray
f asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=False)
    = as_tensor_of(obj, dtype, device, copy)
f full(size, fill_value, *, dtype=None, device=None) = fw.full(size, fill_value, dtype, device)
fm diagonal_scatter(input, src, offset=0, dim1=0, dim2=1)
    = scattered_diagonal(input, src, offset, dim1, dim2)
f range(start=0, end=None, step=1, *, dtype=None, device=None)
    = fw.arange(start, end + step / 2, step, dtype=dtype or fw.float32, device=device)
f linspace(start, end, steps, *, dtype=None, device=None)
    = fw.linspace(start, end, steps, dtype=dtype, device=device)
f logspace(start, end, steps, base=10.0, *, dtype=None, device=None)
    = fw.logspace(start, end, steps, base=base, dtype=dtype, device=device)
f arange(start=0, end=None, step=1, *, dtype=None, device=None)
    = fw.arange(start, end, step, dtype=dtype, device=device)
f eye(n, m=None, *, dtype=None, device=None) = fw.eye(n, m, dtype=dtype, device=device)
f randint(low=0, high=None, size=None, *, generator=None, dtype=None, device=None)
    = integers_between(low, high, size, generator, dtype, device)
f randint_like(input, low=0, high=None, *, dtype=None)
    = fw.astype(fw.randint_like(input, *bounds(low, high), dtype=fw.int64), dtype or input.dtype)
f randperm(n, *, generator=None, dtype=None, device=None) = fw.randperm(n, generator, dtype, device)
f normal(mean=0.0, std=1.0, size=None, *, generator=None, dtype=None, device=None)
    = fw.normal(mean, std, size, generator=generator, dtype=dtype, device=device)
fm bernoulli(input, p=None, *, generator=None)
    = fw.bernoulli(input if p is None else fw.full_like(input, p), generator=generator)
fm multinomial(input, num_samples, replacement=False, *, generator=None)
    = fw.multinomial(input, num_samples, replacement, generator=generator)
f poisson(input, generator=None) = fw.poisson(input, generator=generator)
f binomial(count, prob, generator=None) = fw.binomial(count, prob, generator=generator)
f full_like(input, fill_value, *, dtype=None, device=None)
    = fw.full_like(input, fill_value, dtype=dtype, device=device)
f zeros_like(input, *, dtype=None, device=None) = fw.zeros_like(input, dtype=dtype, device=device)
f ones_like(input, *, dtype=None, device=None) = fw.ones_like(input, dtype=dtype, device=device)
f empty_like(input, *, dtype=None, device=None) = fw.empty_like(input, dtype=dtype, device=device)
f rand_like(input, *, dtype=None, device=None, generator=None)
    = fw.rand_like(input, dtype, generator, device)
f randn_like(input, *, dtype=None, device=None, generator=None)
    = fw.randn_like(input, dtype, generator, device)
m new_tensor(input, data, *, dtype=None, device=None)
    = fw.tensor(data, dtype or input.dtype, device or input.device)
m new_zeros(input, *size, dtype=None, device=None)
    = fw.full(sizes(size), 0, dtype or input.dtype, device or input.device)
    |> fw.zeros
m new_ones(input, *size, dtype=None, device=None)
    = fw.full(sizes(size), 1, dtype or input.dtype, device or input.device)
    |> fw.ones
m new_empty(input, *size, dtype=None, device=None)
    = fw.full(sizes(size), 0, dtype or input.dtype, device or input.device)
    |> fw.empty
m new_full(input, size, fill_value, *, dtype=None, device=None)
    = fw.full(size, fill_value, dtype or input.dtype, device or input.device)
f tril_indices(row, col, offset=0, *, dtype=None, device=None)
    = fw.tril_indices(row, col, k=offset, device=device)
f triu_indices(row, col, offset=0, *, dtype=None, device=None)
    = fw.triu_indices(row, col, k=offset, device=device)
f vander(x, N=None, increasing=False) = fw.linalg.vander(x, N, increasing)
f meshgrid(*tensors, indexing="ij") = fw.meshgrid(*given_list(tensors), indexing=indexing)
f hann_window(window_length, periodic=True, *, dtype=None)
    = fw.signal.windows.hann(window_length, sym=not periodic, dtype=dtype)
f hamming_window(window_length, periodic=True, *, dtype=None)
    = fw.signal.windows.hamming(window_length, sym=not periodic, dtype=dtype)
f blackman_window(window_length, periodic=True, *, dtype=None)
    = fw.signal.windows.blackman(window_length, sym=not periodic, dtype=dtype)
f bartlett_window(window_length, periodic=True, *, dtype=None)
    = fw.signal.windows.bartlett(window_length, sym=not periodic, dtype=dtype)
"""

MOVE = """
f cat(tensors, dim=0) = joined(tensors, dim) |> fw.concat
f concat(tensors, dim=0) = joined(tensors, dim)
f concatenate(tensors, dim=0) = joined(tensors, dim) |> fw.concat
f stack(tensors, dim=0) = fw.stack(tensors, dim)
f row_stack(tensors) = fw.vstack(tensors)
fm permute(input, *dims) = fw.permute_dims(input, sizes(dims))
m view(input, *shape) = viewed(input, shape) |> x.reshape
fm reshape(input, *shape) = fw.reshape(input, sizes(shape))
m view_as(input, other) = fw.reshape(input, other.shape) |> x.reshape(y.shape)
m reshape_as(input, other) = fw.reshape(input, other.shape) |> x.reshape(y.shape)
m expand(input, *sizes)
    = expanded(input, given_sizes(sizes))
    |> x.broadcast_to((2, 2))  # all sizes written out
m expand_as(input, other) = fw.broadcast_to(input, other.shape) |> x.broadcast_to(y.shape)
fm broadcast_to(input, *shape) = fw.broadcast_to(input, sizes(shape))
f broadcast_tensors(*tensors) = fw.broadcast_arrays(*given_list(tensors))
fm unsqueeze(input, dim) = fw.expand_dims(input, dim)
fm squeeze(input, dim=None) = squeezed(input, dim) | axes of other sizes than 1 stay
m unsqueeze_(input, dim) = in_new_shape(input, fw.expand_dims(input, dim)) |> x.expand_dims
m squeeze_(input, dim=None) = in_new_shape(input, squeezed(input, dim)) |> x.squeeze
m transpose_(input, dim0, dim1) = in_new_shape(input, fw.transpose(input, dim0, dim1))
m t_(input) = in_new_shape(input, transposed(input))
m resize_(input, *size) = in_new_shape(input, fw.reshape(input, sizes(size)))
fm t(input) = transposed(input) |> x.T
fm adjoint(input) = fw.conj(fw.matrix_transpose(input))
fm transpose(input, dim0, dim1) = fw.transpose(input, dim0, dim1)
fm swapaxes(input, axis0, axis1) = fw.transpose(input, axis0, axis1)
fm swapdims(input, dim0, dim1) = fw.transpose(input, dim0, dim1)
fm movedim(input, source, destination) = fw.moveaxis(input, source, destination)
fm moveaxis(input, source, destination) = fw.moveaxis(input, source, destination)
fm ravel(input) = fw.flatten(input)
fm flatten(input, start_dim=0, end_dim=-1) = fw.flatten(input, start_dim, end_dim)
fm narrow(input, dim, start, length) = sliced(input, dim, start, length) |> x[0:1]
fm select(input, dim, index) = row_at(input, dim, index) |> x[0]
fm index_select(input, dim, index)
    = fw.take(input, vector(index), axis=dim)
    |> fw.take(x, fw.tensor([0, 1]), axis=0)
fm take(input, index)
    = fw.reshape(fw.take_along_axis(fw.flatten(input), fw.flatten(index), axis=0), index.shape)
    | of the flattened tensor
fm take_along_dim(input, indices, dim=None) = taken_along(input, indices, dim) |> x.take_along_axis
fm gather(input, dim, index, *, sparse_grad=False)
    = gathered(input, dim, index)
    |> x.gather
fm unbind(input, dim=0) = fw.unstack(input, dim)
m repeat(input, *repeats) = fw.tile(input, sizes(repeats)) | repeats the tensor, as tile does
fm tile(input, *dims) = fw.tile(input, padded_sizes(sizes(dims), input.ndim))
fm repeat_interleave(input, repeats, dim=None, *, output_size=None)
    = fw.repeat(input, repeats, axis=dim)
fm split(tensor, split_size_or_sections, dim=0) = fw.split(tensor, split_size_or_sections, dim)
fm split_with_sizes(input, split_sizes, dim=0) = fw.split(input, split_sizes, dim)
fm chunk(input, chunks, dim=0) = fw.chunk(input, chunks, dim)
fm tensor_split(input, indices_or_sections, dim=0)
    = fw.tensor_split(input, indices_or_sections, dim)
fm roll(input, shifts, dims=None) = fw.roll(input, shifts, dims)
fm flip(input, *dims) = fw.flip(input, sizes(dims))
fm fliplr(input) = fw.flip(input, 1)
fm flipud(input) = fw.flip(input, 0)
fm rot90(input, k=1, dims=(0, 1)) = fw.rot90(input, k, dims)
m unfold(input, dimension, size, step) = fw.Tensor.unfold(input, dimension, size, step)
fmi tril(input, diagonal=0) = fw.tril(input, k=diagonal)
fmi triu(input, diagonal=0) = fw.triu(input, k=diagonal)
fm diag(input, diagonal=0) = fw.diag(input, diagonal)
fm diagonal(input, offset=0, dim1=0, dim2=1) = diagonal_of(input, offset, dim1, dim2)
fm diag_embed(input, offset=0, dim1=-2, dim2=-1) = diagonal_matrices(input, offset, dim1, dim2)
m clone(input, *, memory_format=None) = copied(input) |> fw.asarray(x, copy=True)
f clone(input, *, memory_format=None) = copied(input)
f atleast_1d(*tensors) = each(fw.atleast_1d, tensors)
f atleast_2d(*tensors) = each(fw.atleast_2d, tensors)
f atleast_3d(*tensors) = each(fw.atleast_3d, tensors)
m sum_to_size(input, *size) = summed_to(input, sizes(size))
m fill_diagonal_(input, fill_value, wrap=False)
    = input.copy_(fw.where(fw.eye(*input.shape, dtype=fw.bool), fill_value, input))
    |> x.copy_(fw.where(fw.eye(2, dtype=fw.bool), 1, x))
m random_(input, low=0, high=None, *, generator=None)
    = random_integers(input, low, high, generator)
    |> x.copy_(fw.randint(0, 2, x.shape))
m exponential_(input, lambd=1, *, generator=None)
    = input.copy_(fw.log1p(-fw.rand_like(input, generator=generator)) / -lambd)
m log_normal_(input, mean=1, std=2, *, generator=None)
    = input.copy_(fw.exp(fw.randn_like(input, generator=generator) * std + mean))
m cauchy_(input, median=0, sigma=1, *, generator=None)
    = input.copy_(fw.tan(math.pi * (fw.rand_like(input,
    generator=generator) - 0.5)) * sigma + median)
m geometric_(input, p, *, generator=None)
    = input.copy_(fw.floor(fw.log1p(-fw.rand_like(input,
    generator=generator)) / math.log1p(-p)) + 1)
m contiguous(input, memory_format=None)
    = same(input)
    |> x  # every tensor is contiguous to those who read it
fm numel(input) = fw.Tensor.size.fget(input) |> x.size
m nelement(input) = fw.Tensor.size.fget(input) |> x.size
m dim(input) = input.ndim |> x.ndim
m ndimension(input) = input.ndim |> x.ndim
m element_size(input) = input.dtype.itemsize |> x.dtype.itemsize
m is_contiguous(input, memory_format=None)
    = True
    |> x  # every tensor is contiguous to those who read it
m stride(input, dim=None) = strides(input, dim) |> x.shape  # a tensor has no strides that count
m storage_offset(input) = 0
m to_dense(input, dtype=None) = cast(input, dtype) |> x  # there are no sparse tensors
m to_sparse(input, *layout)
    = same(input)
    | all elements are stored, zeros too
    |> x  # there are no sparse tensors
m coalesce(input) = same(input)
m pin_memory(input, device=None) = same(input) |> x  # copies to a GPU need no preparation
m share_memory_(input) = same(input)
m is_pinned(input) = False
m get_device(input) = -1 if input.device == "cpu" else input.device.index |> x.device
m data_ptr(input) = address_of(input)
fmi masked_fill(input, mask, value) = fw.masked_fill(input, mask, value)
fmi masked_scatter(input, mask, source) = fw.masked_scatter(input, mask, source)
fm masked_select(input, mask) = fw.masked_select(input, mask)
fmi scatter(input, dim, index, src=None, *, value=None, reduce=None)
    = fw.scatter(input, dim, vector(index), vector(value if src is None else src), reduce)
fmi scatter_add(input, dim, index, src)
    = fw.scatter_add(input, dim, vector(index), vector(src))
fmi scatter_reduce(input, dim, index, src, reduce, *, include_self=True)
    = fw.scatter_reduce(input, dim, vector(index), vector(src), reduce, include_self)
fmi index_add(input, dim, index, source, *, alpha=1)
    = fw.index_add(input, dim, index, scaled(source, alpha))
fmi index_copy(input, dim, index, source) = fw.index_copy(input, dim, index, source)
fmi index_fill(input, dim, index, value) = fw.index_fill(input, dim, index, value)
fmi index_put(input, indices, values, accumulate=False)
    = fw.index_put(input, places(indices), values, accumulate)
fmi index_reduce(input, dim, index, source, reduce, *, include_self=True)
    = fw.index_reduce(input, dim, index, source, reduce, include_self)
mi put(input, index, source, accumulate=False)
"""
