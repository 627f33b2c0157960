// The contacts of a file, served by json-server. It prints its address, and ends with its input.
const fs = require('node:fs')
const jsonServer = require(require.resolve('json-server', { paths: [process.cwd()] }))

process.stdin.resume().on('end', () => process.exit())

// The names of FreeAgent's parameters, in json-server's words.
const names = { page: '_page', per_page: '_limit', sort: '_sort', updated_since: 'updated_at_gte' }

const app = jsonServer.create()
app.use(jsonServer.bodyParser)
app.use((req, res, next) => {
  const { view, ...asked } = req.query
  req.query = Object.fromEntries(Object.entries(asked).map(([name, value]) => [names[name] ?? name, value]))
  if (view !== 'all' && req.method === 'GET' && req.path === '/contacts') {
    req.query.status = 'Active' // FreeAgent leaves hidden contacts out unless asked
  }
  next()
})
const router = jsonServer.router({ contacts: JSON.parse(fs.readFileSync(process.argv[2])),
  company: { subdomain: 'northwind', name: 'Northwind Books' }, me: { permission_level: 8 } })
const wrappers = { contacts: 'contacts', company: 'company', me: 'user' }
router.render = (req, res) => res.jsonp({ [wrappers[req.path.split('/')[1]]]: res.locals.data })
app.use(jsonServer.rewriter({ '/users/me': '/me' }))
app.use(router)
const server = app.listen(0, '127.0.0.1', () => console.log('oracle http://127.0.0.1:' + server.address().port))
