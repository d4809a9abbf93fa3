// An Express application that renders a page: node express_app.js PORT; its packages are in NODE_PATH.
'use strict'
const express = require('express')

const app = express()
app.set('views', __dirname)
app.set('view engine', 'ejs')
app.get('/page', (_, response) => response.render('page', { names: ['ada', 'grace', 'edsger', 'barbara'] }))
app.listen(Number(process.argv[2]), '127.0.0.1')
